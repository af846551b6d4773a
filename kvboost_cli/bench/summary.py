"""From prompts to figures per task and variant: means and medians with their intervals, and ratios to the baseline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

from .intervals import Interval, interval, means, medians, ratio_interval
from .results import PromptResult, QualityRun, VariantResult
from .variants import BASELINE

SEED = 1
"""Of the draws, not of the prompts: the same run gives the same intervals."""


@dataclass(frozen=True)
class VariantSummary:
    """A variant over a task's prompts; times are medians, all else means.

    ``kl_ratio`` and ``repair_ratio`` are against the baseline's mean KL and median repair time, None if it was not run
    or is 0; ``accuracy_ratio`` and ``ttft_ratio`` against full prefill's.
    """

    variant: str
    kl_mean: Interval
    kl_ratio: Interval | None
    kl_first: Interval
    top1_agreement: Interval
    accuracy: Interval | None
    accuracy_ratio: Interval | None
    repaired_tokens: Interval
    repair_s: Interval
    repair_ratio: Interval | None
    ttft_s: Interval
    ttft_ratio: Interval | None


@dataclass(frozen=True)
class TaskSummary:
    """One task: how many prompts, their mean length, full prefill, and the variants in the order given."""

    task: str
    num_prompts: int
    prompt_tokens: float
    accuracy: Interval | None
    ttft_s: Interval
    variants: tuple[VariantSummary, ...]

    def to_json(self) -> dict[str, object]:
        """As JSON has it: an interval is ``[value, low, high]``."""
        return {**_figures(self), "variants": [_figures(variant) for variant in self.variants]}


def _figures(summary: TaskSummary | VariantSummary) -> dict[str, object]:
    figures = {field.name: getattr(summary, field.name) for field in fields(summary)}
    return {name: list(astuple(value)) if isinstance(value, Interval) else value for name, value in figures.items()}


def summarize_run(run: QualityRun) -> list[TaskSummary]:
    """All tasks of a run."""
    return [_summarize_task(task, run.prompts_of(task)) for task in run.tasks]


def _summarize_task(task: str, prompts: Sequence[PromptResult]) -> TaskSummary:
    by_variant = {column[0].variant: column for column in zip(*(prompt.variants for prompt in prompts), strict=True)}
    return TaskSummary(
        task=task,
        num_prompts=len(prompts),
        prompt_tokens=sum(prompt.prompt_tokens for prompt in prompts) / len(prompts),
        accuracy=_accuracy([prompt.reference.right for prompt in prompts]),
        ttft_s=interval([prompt.reference.ttft_s for prompt in prompts], SEED, medians),
        variants=tuple(_summarize_variant(column, prompts, by_variant) for column in by_variant.values()),
    )


def _summarize_variant(
    column: Sequence[VariantResult], prompts: Sequence[PromptResult], by_variant: Mapping[str, Sequence[VariantResult]]
) -> VariantSummary:
    """``column`` holds the variant's result for each prompt."""
    baseline = by_variant.get(BASELINE.name)
    reference_right = [prompt.reference.right for prompt in prompts]
    right = [result.right for result in column]
    ttft_s = _take(column, lambda result: result.ttft_s)
    return VariantSummary(
        variant=column[0].variant,
        kl_mean=interval(_take(column, _kl), SEED),
        kl_ratio=None if baseline is None else ratio_interval(_take(column, _kl), _take(baseline, _kl), SEED, means),
        kl_first=interval(_take(column, lambda result: result.kl_first), SEED),
        top1_agreement=interval(_take(column, lambda result: result.top1_agreement), SEED),
        accuracy=_accuracy(right),
        accuracy_ratio=_accuracy_ratio(right, reference_right),
        repaired_tokens=interval(_take(column, lambda result: result.repaired_tokens), SEED),
        repair_s=interval(_take(column, _repair_s), SEED, medians),
        repair_ratio=None
        if baseline is None
        else ratio_interval(_take(column, _repair_s), _take(baseline, _repair_s), SEED, medians),
        ttft_s=interval(ttft_s, SEED, medians),
        ttft_ratio=ratio_interval(ttft_s, [prompt.reference.ttft_s for prompt in prompts], SEED, medians),
    )


def _take(column: Sequence[VariantResult], figure: Callable[[VariantResult], float]) -> list[float]:
    return [figure(result) for result in column]


def _kl(result: VariantResult) -> float:
    return result.kl_mean


def _repair_s(result: VariantResult) -> float:
    return result.repair_s


def _told(right: Sequence[bool | None]) -> list[float]:
    """1 for each right answer and 0 for each wrong one: nothing for a task without either."""
    return [float(one) for one in right if one is not None]


def _accuracy(right: Sequence[bool | None]) -> Interval | None:
    told = _told(right)
    return interval(told, SEED) if told else None


def _accuracy_ratio(right: Sequence[bool | None], reference: Sequence[bool | None]) -> Interval | None:
    told = _told(right)
    return ratio_interval(told, _told(reference), SEED) if told else None
