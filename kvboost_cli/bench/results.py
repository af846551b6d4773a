"""What a quality run measured, prompt by prompt: to JSON, back from it, and several runs into one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from .errors import NotARun, RunsDiffer


@dataclass(frozen=True)
class VariantResult:
    """A stitched prompt against full prefill: KL in nats per token, agreement from 0 to 1, times in seconds.

    ``right`` is None where no answer is right or wrong.
    """

    variant: str
    kl_mean: float
    kl_first: float
    top1_agreement: float
    right: bool | None
    repaired_tokens: int
    repair_s: float
    ttft_s: float
    answer: str


@dataclass(frozen=True)
class ReferenceResult:
    """Full prefill of a prompt."""

    right: bool | None
    ttft_s: float
    answer: str


@dataclass(frozen=True)
class PromptResult:
    """One prompt: how it was made, full prefill, and each variant. ``documents`` are names, in prompt order."""

    task: str
    seed: int
    number: int
    prompt_tokens: int
    documents: tuple[str, ...]
    question: str
    expected: tuple[str, ...]
    reference: ReferenceResult
    variants: tuple[VariantResult, ...]


@dataclass(frozen=True)
class RunFacts:
    """One run of the benchmark over a folder."""

    docs: str
    n: int
    seed: int
    tasks: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Setup:
    """What has to be the same for runs to be compared. ``recipe`` is that of the variants that are not ``alone``."""

    model: Mapping[str, str]
    machine: Mapping[str, object]
    recipe: Mapping[str, object]
    num_documents: int
    passage_tokens: int
    order: str
    variants: tuple[str, ...]


@dataclass(frozen=True)
class QualityRun:
    """Everything that was measured, by one run or several."""

    setup: Setup
    runs: tuple[RunFacts, ...]
    prompts: tuple[PromptResult, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks in the order in which they were run."""
        return tuple(dict.fromkeys(prompt.task for prompt in self.prompts))

    def prompts_of(self, task: str) -> list[PromptResult]:
        """The prompts of one task."""
        return [prompt for prompt in self.prompts if prompt.task == task]

    def to_json(self) -> dict[str, object]:
        """The measurements as JSON has them."""
        return {**asdict(self.setup), "runs": list(map(asdict, self.runs)), "prompts": list(map(asdict, self.prompts))}


def read_run(path: Path) -> QualityRun:
    """What ``bench quality --json`` printed into a file. Raises ``NotARun`` or an ``OSError``."""
    try:
        return _from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise NotARun(f"this is not what `bench quality --json` prints: {path}") from error


def merge_runs(runs: Sequence[QualityRun]) -> QualityRun:
    """The prompts of all runs, of which there is at least one. Raises ``RunsDiffer``."""
    first = runs[0]
    for run in runs[1:]:
        _require_same(first.setup, run.setup)
    facts = tuple(fact for run in runs for fact in run.runs)
    for one, other in combinations(facts, 2):
        twice = set(one.tasks) & set(other.tasks)
        if (one.docs, one.seed) == (other.docs, other.seed) and twice:
            raise RunsDiffer(f"two runs over {one.docs} hold the same prompts, those of: {', '.join(sorted(twice))}")
    return replace(first, runs=facts, prompts=tuple(prompt for run in runs for prompt in run.prompts))


def _require_same(one: Setup, other: Setup) -> None:
    for name, value in asdict(one).items():
        found = getattr(other, name)
        if found != value:
            raise RunsDiffer(f"runs to be merged need the same {name.replace('_', ' ')}, and not {value} and: {found}")


def _from_json(facts: Mapping[str, Any]) -> QualityRun:
    names = Setup.__dataclass_fields__
    setup = Setup(**{name: facts[name] for name in names} | {"variants": tuple(facts["variants"])})
    runs = tuple(RunFacts(**run | {"tasks": tuple(run["tasks"])}) for run in facts["runs"])
    prompts = tuple(map(_prompt_from_json, facts["prompts"]))
    if not runs or not prompts or not all(prompt.variants for prompt in prompts):
        raise ValueError("nothing was measured")
    return QualityRun(setup, runs, prompts)


def _prompt_from_json(facts: Mapping[str, Any]) -> PromptResult:
    changed = {
        "documents": tuple(facts["documents"]),
        "expected": tuple(facts["expected"]),
        "reference": ReferenceResult(**facts["reference"]),
        "variants": tuple(VariantResult(**result) for result in facts["variants"]),
    }
    return PromptResult(**{**facts, **changed})
