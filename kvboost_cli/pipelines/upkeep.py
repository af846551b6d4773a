"""Keeping a store in order: what the layers above it know of its values, and its search index beside it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from store import ChunkHeader, ChunkStore, Rules

from ..kv.sizes import DTYPE_BYTES, num_layer_bytes
from ..retrieval import SearchIndex, SearchIndexDamaged, SearchIndexMissing, remove_index
from .fidelity import LATEST_NAME, META_PREFIX, parse_result
from .fillers import META_NAME as FILLERS_NAME
from .fillers import pool_from_bytes
from .searching import FILE_NAME


def store_rules() -> Rules:
    """How the store's check can tell more than bytes: the size of layers by their shape, metadata by what it is."""
    return Rules(layer_bytes=_layer_bytes, meta_fault=_meta_fault)


def _layer_bytes(header: ChunkHeader) -> int | None:
    """The size of each layer; None for sparsified chunks and dtypes that are not known here."""
    if header.kept_indices or header.dtype not in DTYPE_BYTES:
        return None
    return num_layer_bytes(
        kv_heads=header.kv_heads, num_tokens=header.num_tokens, key_dim=header.key_dim, value_dim=header.value_dim,
        bits=header.bits, group=header.group, dtype=header.dtype,
    )  # fmt: skip


def _meta_fault(name: str, data: bytes) -> str | None:
    if name == FILLERS_NAME and pool_from_bytes(data) is None:
        return "the fillers do not match their digest"
    if (name == LATEST_NAME or name.startswith(META_PREFIX)) and parse_result(data) is None:
        return "it is no result of the fidelity gate"
    return None


@dataclass(frozen=True)
class SearchState:
    """How a search index compares with the documents of its store; ``fault`` is one of the file itself."""

    num_documents: int
    num_lacking: int
    num_surplus: int
    fault: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it has the store's documents, all of them and no others."""
        return self.fault is None and not self.num_lacking and not self.num_surplus


def check_search(store: ChunkStore) -> SearchState:
    """Looks through the whole search index; a store without documents needs none."""
    with store.snapshot() as snapshot:
        wanted = {entry.name: entry.content_hash for entry in snapshot.documents()}
    if not wanted and not (store.path / FILE_NAME).exists():
        return SearchState(0, 0, 0)
    try:
        with SearchIndex(store.path / FILE_NAME, readonly=True) as index:
            index.check()
            found = index.document_hashes()
    except SearchIndexMissing:
        return SearchState(len(wanted), len(wanted), 0)
    except SearchIndexDamaged as error:
        return SearchState(len(wanted), len(wanted), 0, error.reason)
    num_lacking = sum(found.get(name) != content_hash for name, content_hash in wanted.items())
    return SearchState(len(wanted), num_lacking, len(found.keys() - wanted.keys()))


@contextmanager
def existing_search(store: ChunkStore) -> Iterator[SearchIndex | None]:
    """The store's search index for writing, None if there is none; a damaged one is removed: it can be made anew."""
    path = store.path / FILE_NAME
    index = _open_existing(path) if path.exists() else None
    try:
        yield index
    finally:
        if index is not None:
            index.close()


def drop_from_search(store: ChunkStore, names: Iterable[str]) -> None:
    """Take documents out of the search index, if there is one."""
    with existing_search(store) as search:
        if search is not None:
            for name in names:
                search.remove_document(name)


def discard_damaged_search(store: ChunkStore) -> None:
    """Remove the search index if it is damaged anywhere; it is made anew when it is next opened."""
    try:
        with existing_search(store) as search:
            if search is not None:
                search.check()
    except SearchIndexDamaged:
        remove_index(store.path / FILE_NAME)


def _open_existing(path: Path) -> SearchIndex | None:
    try:
        return SearchIndex(path)
    except SearchIndexDamaged:
        remove_index(path)
        return None
