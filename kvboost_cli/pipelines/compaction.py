"""Giving space back: the search index and the data file without what was removed from them."""

from dataclasses import dataclass

from store import ChunkStore, Compacted, compact_store
from store.compacting import OnBytes

from ..retrieval import SearchIndexDamaged, remove_index
from .searching import FILE_NAME
from .upkeep import existing_search

WORTH_BYTES, WORTH_SHARE = 64 << 20, 0.5
"""What a compaction that nobody asked for has to give back: so many bytes, and this share of the file.

Free pages are used again by what is stored next, and a compaction writes the whole store and lets writers wait.
"""


@dataclass(frozen=True)
class CompactReport:
    """Sizes of the data file, and of the search index with its side files."""

    data: Compacted
    search: Compacted


def is_worthwhile(store: ChunkStore) -> bool:
    """Whether so much of the data file is free that it should be rewritten unasked."""
    stats = store.stats()
    free = stats.file_bytes - stats.live_bytes
    return free >= WORTH_BYTES and free >= WORTH_SHARE * stats.file_bytes


def compact(store: ChunkStore, on_bytes: OnBytes | None = None) -> CompactReport:
    """Rewrite both files; the caller holds the writer lock. A damaged search index is removed: it is made anew.

    ``on_bytes`` is told bytes of the data file's copy as they are compared. Raises the errors of ``compact_store``,
    and ``SearchIndexBusy`` if another process reads removed text at this moment.
    """
    search_before = _search_bytes(store)
    try:
        with existing_search(store) as search:
            if search is not None:
                search.compact()
    except SearchIndexDamaged:
        remove_index(store.path / FILE_NAME)
    search_after = _search_bytes(store)
    return CompactReport(compact_store(store, on_bytes), Compacted(search_before, search_after))


def _search_bytes(store: ChunkStore) -> int:
    return sum(path.stat().st_size for path in store.path.glob(f"{FILE_NAME}*"))
