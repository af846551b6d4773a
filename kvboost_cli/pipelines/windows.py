"""Which stretches of a document are run to encode the chunks that have no KV yet. Integers only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class WindowPlan:
    """Chunks ``first .. last - 1`` are kept; the ``num_context_tokens`` before them are run for context only."""

    first: int
    last: int
    num_context_tokens: int


def plan_windows(
    chunk_tokens: Sequence[int], missing: Sequence[bool], window_tokens: int, overlap_tokens: int
) -> list[WindowPlan]:
    """Cover every missing chunk once, in windows of at most ``window_tokens`` (a longer chunk stands alone).

    Three missing chunks of 200 tokens in windows of 500 give chunks 0 and 1 together, then chunk 2 with up to
    ``overlap_tokens`` of chunk 1 before it.
    """
    starts = [0, *accumulate(chunk_tokens)]
    return [
        WindowPlan(first, last, min(overlap_tokens, starts[first]))
        for run_first, run_last in _runs(missing)
        for first, last in _split(chunk_tokens, run_first, run_last, window_tokens)
    ]


def _runs(missing: Sequence[bool]) -> Iterator[tuple[int, int]]:
    first = None
    for index, absent in enumerate([*missing, False]):
        if absent and first is None:
            first = index
        elif not absent and first is not None:
            yield first, index
            first = None


def _split(chunk_tokens: Sequence[int], first: int, last: int, limit: int) -> Iterator[tuple[int, int]]:
    start, total = first, 0
    for index in range(first, last):
        if total and total + chunk_tokens[index] > limit:
            yield start, index
            start, total = index, 0
        total += chunk_tokens[index]
    yield start, last
