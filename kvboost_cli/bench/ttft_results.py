"""What ``bench ttft`` measured, prompt by prompt, and its figures per size and strategy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from statistics import median

from .floor import Floor
from .intervals import Interval, interval, medians
from .memory import MemoryUse
from .summary import SEED


@dataclass(frozen=True)
class AskTimes:
    """An ask with one strategy: seconds by the clock outside, the phases that kvboost reports, and the floor."""

    strategy: str
    ttft_s: float
    phases: Mapping[str, float]
    repaired_tokens: int
    floor: Floor


@dataclass(frozen=True)
class PromptTimes:
    """One prompt: its documents' names in order, full prefill, and each strategy."""

    size: str
    number: int
    documents: tuple[str, ...]
    prompt_tokens: int
    full_prefill_s: float
    asks: tuple[AskTimes, ...]


@dataclass(frozen=True)
class FloorSummary:
    """Medians of the parts of the floor, and of their sum."""

    total_s: float
    load_s: float
    tail_s: float
    repair_s: float
    together_s: float
    load_bytes: float
    copy_bytes_per_s: float
    tail_tokens: float
    repair_tokens: float


@dataclass(frozen=True)
class StrategySummary:
    """Medians over the prompts of a size; ``speedup`` and ``floor_ratio`` are medians of each prompt's own ratio."""

    strategy: str
    ttft_s: Interval
    speedup: Interval
    floor_ratio: Interval
    repaired_tokens: float
    phases: Mapping[str, float]
    floor: FloorSummary


@dataclass(frozen=True)
class SizeSummary:
    """One size: its prompts, their median length, full prefill, and the strategies in the order given."""

    size: str
    num_documents: int
    num_prompts: int
    prompt_tokens: float
    full_prefill_s: Interval
    strategies: tuple[StrategySummary, ...]

    def to_json(self) -> dict[str, object]:
        """As JSON has it: an interval is ``[value, low, high]``."""
        strategies = [{**asdict(one), **_intervals(one)} for one in self.strategies]
        return {**asdict(self), **_intervals(self), "strategies": strategies}


@dataclass(frozen=True)
class TTFTRun:
    """Everything that was measured; ``setup`` has model, machine and recipe. ``complete``: it was not interrupted."""

    setup: Mapping[str, object]
    docs: str
    seed: int
    repeats: int
    passage_tokens: int
    strategies: tuple[str, ...]
    seconds: float
    complete: bool
    memory: tuple[MemoryUse, ...]
    prompts: tuple[PromptTimes, ...]

    @property
    def summaries(self) -> list[SizeSummary]:
        """The figures of each size of which something was measured."""
        sizes = dict.fromkeys(prompt.size for prompt in self.prompts)
        return [_summarize([prompt for prompt in self.prompts if prompt.size == size]) for size in sizes]

    def to_json(self) -> dict[str, object]:
        """One object with all of it."""
        facts = asdict(self)
        setup = facts.pop("setup")
        return {**setup, **facts, "sizes": [summary.to_json() for summary in self.summaries]}


def _summarize(prompts: Sequence[PromptTimes]) -> SizeSummary:
    first = prompts[0]
    columns = zip(*(prompt.asks for prompt in prompts), strict=True)
    full = [prompt.full_prefill_s for prompt in prompts]
    return SizeSummary(
        size=first.size,
        num_documents=len(first.documents),
        num_prompts=len(prompts),
        prompt_tokens=median(prompt.prompt_tokens for prompt in prompts),
        full_prefill_s=interval(full, SEED, medians),
        strategies=tuple(_summarize_strategy(column, full) for column in columns),
    )


def _summarize_strategy(asks: Sequence[AskTimes], full_prefill_s: Sequence[float]) -> StrategySummary:
    """One strategy's asks, and full prefill of the same prompts."""
    ratios = [full / ask.ttft_s for full, ask in zip(full_prefill_s, asks, strict=True)]
    return StrategySummary(
        strategy=asks[0].strategy,
        ttft_s=interval([ask.ttft_s for ask in asks], SEED, medians),
        speedup=interval(ratios, SEED, medians),
        floor_ratio=interval([ask.ttft_s / ask.floor.total_s for ask in asks], SEED, medians),
        repaired_tokens=median(ask.repaired_tokens for ask in asks),
        phases={phase: median(ask.phases[phase] for ask in asks) for phase in asks[0].phases},
        floor=_summarize_floor([ask.floor for ask in asks]),
    )


def _summarize_floor(floors: Sequence[Floor]) -> FloorSummary:
    def middle(part: Callable[[Floor], float]) -> float:
        return median(map(part, floors))

    return FloorSummary(
        total_s=middle(lambda floor: floor.total_s),
        load_s=middle(lambda floor: floor.load_s),
        tail_s=middle(lambda floor: floor.tail_s),
        repair_s=middle(lambda floor: floor.repair_s),
        together_s=middle(lambda floor: floor.together_s),
        load_bytes=middle(lambda floor: floor.load_bytes),
        copy_bytes_per_s=middle(lambda floor: floor.copy_bytes_per_s),
        tail_tokens=middle(lambda floor: floor.tail_tokens),
        repair_tokens=middle(lambda floor: floor.repair_tokens),
    )


def _intervals(summary: SizeSummary | StrategySummary) -> dict[str, object]:
    return {name: list(astuple(value)) for name, value in vars(summary).items() if isinstance(value, Interval)}
