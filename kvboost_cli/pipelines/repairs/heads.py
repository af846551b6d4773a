"""The heads of segments and seams: what the plan alone says to recompute. Integers only.

A choice has ascending positions, all of them content hits.
"""

from collections.abc import Iterator

from ..plan import Hit, StitchPlan

DEFAULT_HEAD_TOKENS = 8
"""Tokens repaired at a segment's head without ``--ratio``; docs/fidelity.md has the measurements."""


def choose_heads(plan: StitchPlan, ratio: float | None) -> list[int]:
    """The first tokens of each document segment and those after each seam.

    Without a ``ratio`` each of these heads has 8 tokens; with one, ``ratio`` of all reused tokens are shared out,
    those nearest to their heads first, so that 1.0 is all of them.
    """
    if ratio is None:
        return segment_heads(plan, DEFAULT_HEAD_TOKENS)
    nearest = sorted((distance, place) for place, distance in _distances(plan))
    budget = round(ratio * len(nearest))
    return sorted(place for _distance, place in nearest[:budget])


def segment_heads(plan: StitchPlan, length: int) -> list[int]:
    """The content hits less than ``length`` tokens behind the head of a document segment or a seam."""
    return [place for place, distance in _distances(plan) if distance < length]


def _distances(plan: StitchPlan) -> Iterator[tuple[int, int]]:
    """Each content hit's position, ascending, with its distance from the last head before it."""
    for segment in plan.segments:
        seams, head = set(segment.seams), segment.header.stop
        for chunk in segment.chunks:
            head = chunk.start if chunk.start in seams else head
            if chunk.hit is Hit.CONTENT:
                yield from ((place, place - head) for place in chunk.positions)
