"""Which records give way when a store is full: those of least importance per byte, by a bounded look at its keys.

Keys are hashes, so a range of them is a fair sample of all. One look takes one range, with about NUM_LOOKED records,
and the next look the next one: time and memory of a look stay the same however large the store is. Up to that many
records a look sees all of them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .budget import pinned_names
from .counting import KeyRange, key_ranges, named_keys, scan_range
from .errors import DamagedRecord
from .importance import ChunkAttention, log_importance, read_attention
from .snapshot import Snapshot
from .transactions import ReadTransaction
from .writing import CONTENT, POSITIONAL, ChunkUse, RecordKind

NUM_LOOKED = 20_000
SHARE_PER_LOOK = 0.05
"""So much of what a look has seen goes, if less would do, too: a full store does not look again at each write."""

LARGEST_SHARE = 0.25
"""No more than that of one range goes before the next is looked at."""

COST_PER_TOKEN = {CONTENT: 2.0, POSITIONAL: 1.0}
"""A content record is made behind two contexts, and without it the prompt has to compute it. An exact one takes one
pass, and stands beside a content record that serves nearly as well.
"""


class Candidate(NamedTuple):
    """A stored record that may go."""

    kind: RecordKind
    key: bytes
    num_tokens: int
    num_bytes: int
    known: ChunkAttention | None


Rank = Callable[[Candidate], float]
"""What goes first has the least."""


@dataclass(frozen=True)
class Victims:
    """Records to be dropped, with the sum of their bytes, and the number of the range to look at next."""

    records: list[tuple[RecordKind, bytes]] = field(default_factory=list)
    num_bytes: int = 0
    next_range: int = 0


def by_importance(candidate: Candidate) -> float:
    """The store's own order: log2 of the importance per byte."""
    cost = COST_PER_TOKEN[candidate.kind] * candidate.num_tokens
    return log_importance(candidate.known, cost, candidate.num_bytes)


def find_victims(txn: ReadTransaction, num_bytes: int, kept: Collection[bytes], rank: Rank, next_range: int) -> Victims:
    """Records that are neither pinned nor `kept`, from the next range that has any; none if no range has.

    They have about `num_bytes` together, but LARGEST_SHARE of the range at most: then the caller looks again.
    """
    num_entries = sum(txn.num_entries(kind.counts) for kind in (CONTENT, POSITIONAL))
    ranges = key_ranges(num_entries, NUM_LOOKED)
    for turn in range(len(ranges)):
        place = (next_range + turn) % len(ranges)
        candidates = sorted(find_candidates(txn, ranges[place], kept), key=rank)
        if candidates:
            range_bytes = sum(candidate.num_bytes for candidate in candidates)
            most = min(num_bytes, LARGEST_SHARE * range_bytes)
            taken = list(_take(candidates, max(1, SHARE_PER_LOOK * range_bytes, most)))
            records = [(candidate.kind, candidate.key) for candidate in taken]
            return Victims(records, sum(candidate.num_bytes for candidate in taken), place + 1)
    return Victims()


def find_candidates(txn: ReadTransaction, keys: KeyRange, kept: Collection[bytes]) -> Iterator[Candidate]:
    """The stored records in a range of keys that may go."""
    pinned = pinned_keys(txn, keys)
    for kind in (CONTENT, POSITIONAL):
        for key, data in scan_range(txn, kind.counts, keys):
            use = _use(data)
            if use.num_bytes and key not in pinned and key not in kept:
                yield Candidate(kind, key, use.num_tokens, use.num_bytes, read_attention(txn, key))


def pinned_keys(txn: ReadTransaction, keys: KeyRange) -> set[bytes]:
    """The keys in a range that pinned documents name."""
    entries = (Snapshot(txn).document(name) for name in pinned_names(txn))
    return {
        key
        for entry in entries
        if entry is not None
        for kind in (CONTENT, POSITIONAL)
        for key in named_keys(entry, kind)
        if key in keys
    }


def _take(candidates: Iterable[Candidate], num_bytes: float) -> Iterator[Candidate]:
    """The first candidates, until they have so many bytes."""
    for candidate in candidates:
        if num_bytes <= 0:
            return
        num_bytes -= candidate.num_bytes
        yield candidate


def _use(data: memoryview) -> ChunkUse:
    try:
        return ChunkUse.from_bytes(data)
    except DamagedRecord:  # `doctor --repair` counts it anew
        return ChunkUse(0, 0, 0)
