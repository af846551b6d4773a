"""Which reused tokens are recomputed in the real prompt.

A strategy is a function ``(plan, ratio) -> positions``, ascending and all of them content hits.
"""

from collections.abc import Callable

from .plan import Hit, Segment, StitchPlan

RepairStrategy = Callable[[StitchPlan, float | None], list[int]]

DEFAULT_HEAD_TOKENS = 16
"""Tokens repaired at a segment's head without ``--ratio``; docs/fidelity.md has the measurements."""


def repair_none(_plan: StitchPlan, _ratio: float | None) -> list[int]:
    """No token: rotation is all that happens to reused keys."""
    return []


def repair_selective(plan: StitchPlan, ratio: float | None) -> list[int]:
    """The first tokens of each document segment and those after each seam (SelectiveRecompute).

    With a ``ratio`` the heads share ``ratio`` of all reused tokens equally; without, each has 16.
    """
    reused = set(plan.positions_with(Hit.CONTENT))
    heads = [start for segment in plan.segments for start in _heads(segment)]
    length = DEFAULT_HEAD_TOKENS if ratio is None else round(ratio * len(reused) / max(1, len(heads)))
    chosen = {start + offset for start in heads for offset in range(length)}
    return sorted(chosen & reused)


def _heads(segment: Segment) -> list[int]:
    first = [segment.chunks[0].start] if segment.chunks else []
    return [*first, *segment.seams]


STRATEGIES: dict[str, RepairStrategy] = {"none": repair_none, "selective": repair_selective}
"""By the name that ``--repair`` takes and reports show."""

AUTO = "selective"
"""What ``--repair auto`` stands for: the best by measurement, see docs/fidelity.md."""


def effective_name(name: str) -> str:
    """The strategy behind a name: ``effective_name("auto") == "selective"``."""
    return AUTO if name == "auto" else name
