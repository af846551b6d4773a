"""The heads of segments and seams: what the plan alone says to recompute. Integers only.

A choice has ascending positions, all of them content hits.
"""

from collections.abc import Iterable, Iterator

from ..plan import Hit, Segment, StitchPlan

DEFAULT_HEAD_TOKENS = 8
"""Tokens repaired at a segment's head without ``--ratio``; docs/fidelity.md has the measurements."""


def choose_heads(plan: StitchPlan, ratio: float | None) -> list[int]:
    """The header and the first tokens of each document segment, and the tokens after each seam.

    Without a ``ratio`` each of these heads has 8 tokens of text; with one, ``ratio`` of all reused tokens are shared
    out, headers and what is nearest to them first, so that 1.0 is all of them.
    """
    if ratio is None:
        return segment_heads(plan.segments, DEFAULT_HEAD_TOKENS)
    nearest = sorted((distance, place) for place, distance in _distances(plan.segments))
    budget = round(ratio * len(nearest))
    return sorted(place for _distance, place in nearest[:budget])


def segment_heads(segments: Iterable[Segment], length: int) -> list[int]:
    """The content hits in a header, and those less than ``length`` tokens behind one or behind a seam."""
    return [place for place, distance in _distances(segments) if distance < length]


def _distances(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Each content hit's position, ascending, with its distance from the head before it: negative within a header."""
    for segment in segments:
        seams, head = set(segment.seams), segment.header.stop
        if segment.header_hit is Hit.CONTENT:
            yield from ((place, place - head) for place in segment.header)
        for chunk in segment.chunks:
            head = chunk.start if chunk.start in seams else head
            if chunk.hit is Hit.CONTENT:
                yield from ((place, place - head) for place in chunk.positions)
