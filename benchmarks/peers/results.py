"""Samples of one run, their medians, and how both are shown. Knows nothing of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

SAME_ORDER, REORDERED, FULL = "same order", "reordered", "full prefill"
OURS = "kvboost"


@dataclass(frozen=True)
class Sample:
    """One measured answer. ``full_s`` is full prefill of the same turn in the same process; None: not measured.

    ``reused`` is the share of the prompt's tokens that were not computed; ``same_answer`` and ``kl_first`` (nats)
    compare with full prefill in the same process; ``step_s`` is the time of one more token.
    """

    who: str
    what: str
    ttft_s: float
    full_s: float | None = None
    reused: float | None = None
    kl_first: float | None = None
    same_answer: bool | None = None
    step_s: float | None = None


@dataclass(frozen=True)
class Row:
    """Medians over all samples of one candidate in one situation; ``same_answers`` counts, of ``num_answers``.

    ``speedup`` is the median of each sample's own ratio to full prefill.
    """

    who: str
    what: str
    n: int
    ttft_s: float
    speedup: float | None
    reused: float | None
    kl_first: float | None
    same_answers: int | None
    num_answers: int
    step_s: float | None


def summarize(samples: Sequence[Sample]) -> list[Row]:
    """One row for each candidate and situation, in the order of their first samples."""
    groups = dict.fromkeys((sample.who, sample.what) for sample in samples)
    return [_row([sample for sample in samples if (sample.who, sample.what) == group]) for group in groups]


def _row(samples: Sequence[Sample]) -> Row:
    answers = [sample.same_answer for sample in samples if sample.same_answer is not None]
    return Row(
        who=samples[0].who,
        what=samples[0].what,
        n=len(samples),
        ttft_s=median(sample.ttft_s for sample in samples),
        speedup=_median([sample.full_s / sample.ttft_s for sample in samples if sample.full_s is not None]),
        reused=_median([sample.reused for sample in samples if sample.reused is not None]),
        kl_first=_median([sample.kl_first for sample in samples if sample.kl_first is not None]),
        same_answers=sum(answers) if answers else None,
        num_answers=len(answers),
        step_s=_median([sample.step_s for sample in samples if sample.step_s is not None]),
    )


def ratio(samples: Sequence[Sample], slow: tuple[str, str], fast: tuple[str, str]) -> float:
    """How many times longer ``slow`` takes to its first token than ``fast``.

    The median over turns, or the ratio of medians if they were not measured equally often.
    """
    ones, others = _times(samples, slow), _times(samples, fast)
    if len(ones) != len(others):
        return median(ones) / median(others)
    return median(one / other for one, other in zip(ones, others, strict=True))


def _times(samples: Sequence[Sample], group: tuple[str, str]) -> list[float]:
    return [sample.ttft_s for sample in samples if (sample.who, sample.what) == group]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("who", lambda row: row.who),
    ("what", lambda row: row.what),
    ("first token", lambda row: _seconds(row.ttft_s)),
    ("own full prefill / it", lambda row: "" if row.speedup is None else f"{row.speedup:.1f}"),
    ("reused", lambda row: "" if row.reused is None else f"{row.reused:.0%}"),
    ("KL of the first token", lambda row: "" if row.kl_first is None else f"{row.kl_first:.4f}"),
    ("same answer", lambda row: "" if row.same_answers is None else f"{row.same_answers} of {row.num_answers}"),
    ("ms per further token", lambda row: "" if row.step_s is None else f"{row.step_s * 1e3:.1f}"),
    ("n", lambda row: str(row.n)),
)


def markdown(rows: Sequence[Row]) -> str:
    """A table of all columns that have something to tell."""
    cells = [(title, [cell(row) for row in rows]) for title, cell in COLUMNS]
    shown = [(title, column) for title, column in cells if any(column)]
    lines = [[title for title, _ in shown], ["---"] * len(shown)]
    lines += [[column[index] for _, column in shown] for index in range(len(rows))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
