"""Keeping a store in order: what the layers above it know of its values, and its search index beside it."""

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep

from store import ChunkHeader, ChunkStore, Rules

from ..kv.sizes import DTYPE_BYTES, num_layer_bytes
from ..retrieval import SearchIndex, SearchIndexDamaged, SearchIndexMissing, remove_index
from .fidelity import LATEST_NAME, META_PREFIX, parse_result
from .fillers import META_NAME as FILLERS_NAME
from .fillers import pool_from_bytes
from .folders import META_NAME as FOLDERS_NAME
from .folders import folders_from_bytes
from .searching import FILE_NAME

RECHECK_S = 0.5


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
    if name == FOLDERS_NAME and folders_from_bytes(data) is None:
        return "the indexed folders do not match their digest"
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
    """Looks through the whole search index; a store without documents needs none.

    A process that indexes or prunes writes the one and then the other: what differs is looked at a second time.
    """
    first = _compare_search(store)
    if first.is_sound:
        return first.state
    sleep(RECHECK_S)
    second = _compare_search(store)
    return replace(
        second.state,
        num_lacking=len(first.lacking & second.lacking),
        num_surplus=len(first.surplus & second.surplus),
    )


@dataclass(frozen=True)
class _Comparison:
    """Names that the search index lacks, or has under another content hash, and those that it has too many."""

    num_documents: int
    lacking: Set[str]
    surplus: Set[str]
    fault: str | None = None

    @property
    def state(self) -> SearchState:
        return SearchState(self.num_documents, len(self.lacking), len(self.surplus), self.fault)

    @property
    def is_sound(self) -> bool:
        return self.state.is_sound


def _compare_search(store: ChunkStore) -> _Comparison:
    with store.snapshot() as snapshot:
        wanted = {entry.name: entry.content_hash for entry in snapshot.documents()}
    if not wanted and not (store.path / FILE_NAME).exists():
        return _Comparison(0, set(), set())
    try:
        with SearchIndex(store.path / FILE_NAME, readonly=True) as index:
            index.check()
            found = index.document_hashes()
    except SearchIndexMissing:
        return _Comparison(len(wanted), wanted.keys(), set())
    except SearchIndexDamaged as error:
        return _Comparison(len(wanted), wanted.keys(), set(), error.reason)
    lacking = {name for name, content_hash in wanted.items() if found.get(name) != content_hash}
    return _Comparison(len(wanted), lacking, found.keys() - wanted.keys())


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
