"""The record of past asks, and the facts about a store that `stats` shows.

Asks are kept under a running number (u64, big-endian). All but the latest NUM_KEPT_ASKS go into totals.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from .budget import disk_bytes, pinned_names, read_budget
from .datafile import DATA_NAME
from .errors import DamagedRecord
from .marker import FORMAT_VERSION
from .names import ASK_TOTALS_KEY
from .records import AskEntry, StoreStats
from .sealed import seal, unseal
from .transactions import ReadTransaction, WriteTransaction
from .writing import ChunkUse, read_identity

NUM_KEPT_ASKS = 1000
_NUMBER = struct.Struct(">Q")


@dataclass(frozen=True)
class AskTotals:
    """Sums over asks."""

    num_asks: int = 0
    documents_exact: int = 0
    documents_content: int = 0
    documents_miss: int = 0

    def plus(self, asks: Sequence[AskEntry]) -> "AskTotals":
        """These sums with `asks` added."""
        return AskTotals(
            self.num_asks + len(asks),
            self.documents_exact + sum(ask.documents_exact for ask in asks),
            self.documents_content + sum(ask.documents_content for ask in asks),
            self.documents_miss + sum(ask.documents_miss for ask in asks),
        )


def append_ask(txn: WriteTransaction, ask: AskEntry) -> None:
    """Adds an ask as the latest, and rolls the oldest into the totals."""
    last = txn.last_key("asks")
    number = _NUMBER.unpack(last)[0] + 1 if last else 0
    txn.put("asks", _NUMBER.pack(number), ask.to_bytes())
    oldest_kept = _NUMBER.pack(max(0, number + 1 - NUM_KEPT_ASKS))
    rolled = list(takewhile(lambda key: key < oldest_kept, (key for key, _ in txn.scan("asks"))))
    if rolled:
        add_to_totals(txn, [ask for key in rolled for ask in parse_ask(txn.get("asks", key))])
    for key in rolled:
        txn.delete("asks", key)


def add_to_totals(txn: WriteTransaction, asks: Sequence[AskEntry]) -> None:
    """Adds asks to the sums."""
    txn.put("meta", ASK_TOTALS_KEY, seal(asdict(_read_totals(txn).plus(asks))))


def collect_stats(txn: ReadTransaction, path: Path) -> StoreStats:
    """What the store at `path` holds and what it earned; reads the counts, no chunk."""
    chunks = _sum_chunks(txn)
    asks = [ask for _, data in txn.scan("asks") for ask in parse_ask(data)]
    totals = _read_totals(txn).plus(asks)
    times_s = sorted(ask.ttft_s for ask in asks)
    return StoreStats(
        path=str(path),
        format=FORMAT_VERSION,
        file_bytes=(path / DATA_NAME).stat().st_size,
        live_bytes=txn.live_bytes(),
        disk_bytes=disk_bytes(path),
        budget=read_budget(txn),
        num_evicted=chunks.num_evicted,
        num_pinned=sum(1 for _ in pinned_names(txn)),
        num_documents=txn.num_entries("documents"),
        num_chunks=txn.num_entries("refs") - chunks.num_evicted,
        num_tokens=chunks.num_tokens,
        bytes_per_token=chunks.num_bytes / chunks.num_tokens if chunks.num_tokens else 0.0,
        identity=read_identity(txn, path),
        num_asks=totals.num_asks,
        documents_exact=totals.documents_exact,
        documents_content=totals.documents_content,
        documents_miss=totals.documents_miss,
        ttft_p50_s=nearest_rank(times_s, 0.50),
        ttft_p95_s=nearest_rank(times_s, 0.95),
    )


class _ChunkSums(NamedTuple):
    """Tokens and bytes of what is stored, and how many chunks are not."""

    num_tokens: int
    num_bytes: int
    num_evicted: int


def _sum_chunks(txn: ReadTransaction) -> _ChunkSums:
    num_tokens = num_bytes = num_evicted = 0
    for use in (ChunkUse.from_bytes(data) for _, data in txn.scan("refs")):
        num_evicted += not use.num_bytes
        num_tokens += use.num_tokens if use.num_bytes else 0
        num_bytes += use.num_bytes
    return _ChunkSums(num_tokens, num_bytes, num_evicted)


def nearest_rank(ordered: Sequence[float], quantile: float) -> float | None:
    """The smallest value that `quantile` of all values do not exceed.

    >>> nearest_rank([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)] if ordered else None


def parse_ask(data: bytes | memoryview | None) -> Iterator[AskEntry]:
    """The ask, or nothing if it is damaged: a lost statistic, no reason to stop."""
    try:
        if data is not None:
            yield AskEntry.from_bytes(data)
    except DamagedRecord:
        return


def _read_totals(txn: ReadTransaction) -> AskTotals:
    data = txn.get("meta", ASK_TOTALS_KEY)
    return AskTotals(**unseal(data)) if data is not None else AskTotals()
