"""Hot records are read once, so that the system has them in its page cache when a question comes."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time

from store import ChunkHeader, ChunkStore, Snapshot

from .chains import OrderChain

MEMORY_SHARE = 0.5
"""Of the memory that is available: what is warmed must not push out what other programs need."""


@dataclass(frozen=True)
class Warmed:
    """Records that were read, with their bytes; ``num_damaged`` of them failed their checksums."""

    num_records: int = 0
    num_bytes: int = 0
    num_damaged: int = 0


def warm_page_cache(store: ChunkStore, chains: Sequence[OrderChain], limit_bytes: int) -> Warmed:
    """Read the records of the orders that are asked most, then chunks by the attention they got, up to a limit."""
    warmed = Warmed()
    for key, positional in _hot_keys(store, chains):
        with store.snapshot() as snapshot:
            header = _header(snapshot, key, positional)
            if header is None:
                continue
            if warmed.num_bytes + header.total_bytes > limit_bytes:
                break
            sound = snapshot.verify(key, header)
        warmed = Warmed(warmed.num_records + 1, warmed.num_bytes + header.total_bytes, warmed.num_damaged + (not sound))
    return warmed


def available_bytes() -> int:
    """Memory that programs can still be given without swapping, by Linux's own estimate; elsewhere what is free."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fields = {name: value.split() for name, _colon, value in (line.partition(":") for line in lines)}
    return int(fields["MemAvailable"][0]) * 1024


def _header(snapshot: Snapshot, key: bytes, positional: bool) -> ChunkHeader | None:
    return snapshot.position_header(key) if positional else snapshot.header(key)


def _hot_keys(store: ChunkStore, chains: Sequence[OrderChain]) -> Iterator[tuple[bytes, bool]]:
    """Keys of what was asked for, and whether they are positional, hottest first and once each."""
    positional = [key for chain in chains for key in (chain.entry.preamble, *chain.entry.position_keys)]
    now, masses, firsts = time(), dict[bytes, float](), list[bytes]()
    with store.snapshot() as snapshot:
        for entry in snapshot.documents():
            asked = {key: known for key in entry.chunk_keys if (known := snapshot.attention(key)) and known.num_asks}
            masses |= {key: known.mass_at(now) for key, known in asked.items()}
            firsts += entry.position_keys if asked else ()
    yield from ((key, True) for key in dict.fromkeys(positional))
    yield from ((key, False) for key in sorted(masses, key=lambda key: -masses[key]))
    yield from ((key, True) for key in firsts if key not in positional)
