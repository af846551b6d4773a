"""What each document holds in the store, and how much it was used; reads counts and usage, no record."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from .budget import pinned_names
from .chunks import ChunkStore
from .counting import named_keys
from .errors import DamagedRecord
from .importance import importance_at, read_attention
from .records import DocumentEntry
from .transactions import ReadTransaction
from .writing import CONTENT, POSITIONAL, ChunkUse

NUM_DOCUMENTS_PER_READ = 256
"""So few that no reader holds back the pages that a writer has freed."""


@dataclass(frozen=True)
class DocumentHolding:
    """A document's chunks; of `num_chunks` `num_evicted` gave way to others.

    `num_bytes` is what its records take, exact ones included; one that several documents share counts for each.
    `importance` is the mean over its chunks, as `importance_at` has it.
    """

    name: str
    root: str
    num_tokens: int
    num_chunks: int
    num_evicted: int
    num_bytes: int
    importance: float
    is_pinned: bool


def read_holdings(store: ChunkStore, now: float) -> Iterator[DocumentHolding]:
    """Every sound document at that Unix time, ordered by the bytes of its name; some at a time in a short read."""
    start = b""
    while True:
        with store._environment.read() as txn:
            pinned = set(pinned_names(txn))
            found = list(islice(txn.scan("documents", start=start), NUM_DOCUMENTS_PER_READ))
            holdings = [_holding(txn, entry, pinned, now) for entry in _sound(found)]
            start = found[-1][0] + b"\0" if found else start
        yield from holdings
        if len(found) < NUM_DOCUMENTS_PER_READ:
            return


def _sound(found: list[tuple[bytes, memoryview]]) -> Iterator[DocumentEntry]:
    for _, data in found:
        try:
            yield DocumentEntry.from_bytes(data)
        except DamagedRecord:
            continue  # as if it were not there; `doctor --check` tells of it


def _holding(txn: ReadTransaction, entry: DocumentEntry, pinned: set[str], now: float) -> DocumentHolding:
    chunks = named_keys(entry, CONTENT)
    uses = [_use(txn, CONTENT.counts, key) for key in chunks]
    exact = [_use(txn, POSITIONAL.counts, key) for key in named_keys(entry, POSITIONAL)]
    importance = sum(importance_at(read_attention(txn, key), now) for key in chunks)
    return DocumentHolding(
        name=entry.name,
        root=entry.root,
        num_tokens=entry.num_tokens,
        num_chunks=len(chunks),
        num_evicted=sum(not use.num_bytes for use in uses),
        num_bytes=sum(use.num_bytes for use in (*uses, *exact)),
        importance=importance / len(chunks) if chunks else 0.0,
        is_pinned=entry.name in pinned,
    )


def _use(txn: ReadTransaction, database: str, key: bytes) -> ChunkUse:
    data = txn.get(database, key)
    try:
        return ChunkUse(0, 0, 0) if data is None else ChunkUse.from_bytes(data)
    except DamagedRecord:
        return ChunkUse(0, 0, 0)  # a lost statistic, no reason to stop
