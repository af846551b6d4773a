"""The search index of a store: opened when it is needed, and made again where it lacks something."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from store import ChunkStore, DocumentEntry, Snapshot

from ..retrieval import SearchIndex, SearchIndexDamaged, remove_index
from .prepare import document_title
from .prompt import header_text

FILE_NAME = "search.sqlite"

Decode = Callable[[Sequence[int]], str]
"""Token ids to text."""


class StoreSearch:
    """The index beside a store. It is derived data: what is damaged or missing comes from the store's token ids."""

    def __init__(self, store: ChunkStore, decode: Decode) -> None:
        self._store, self._decode = store, decode
        self._index: SearchIndex | None = None

    @property
    def index(self) -> SearchIndex:
        """The index, opened at the first use, with all documents of the store and no others.

        A read-only store's is taken as it is. Raises the retrieval package's errors.
        """
        if self._index is None:
            self._index = self._open()
        return self._index

    def _open(self) -> SearchIndex:
        path = self._store.path / FILE_NAME
        if self._store.readonly:
            return SearchIndex(path, readonly=True)
        try:
            return self._completed(SearchIndex(path))
        except SearchIndexDamaged:
            remove_index(path)
            return self._completed(SearchIndex(path))

    def _completed(self, index: SearchIndex) -> SearchIndex:
        try:
            self._complete(index)
        except BaseException:
            index.close()
            raise
        return index

    def _complete(self, index: SearchIndex) -> None:
        surplus = index.document_hashes()
        with self._store.snapshot() as snapshot:
            for entry in snapshot.documents():
                if surplus.pop(entry.name, None) != entry.content_hash:
                    texts = _chunk_texts(snapshot, entry, self._decode)
                    index.replace_document(entry.name, entry.content_hash, texts)
        for name in surplus:
            index.remove_document(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._index is not None:
            self._index.close()


def _chunk_texts(snapshot: Snapshot, entry: DocumentEntry, decode: Decode) -> list[str]:
    named = header_text(document_title(entry.name, entry.root))
    runs = [snapshot.token_ids(key) for key in entry.chunk_keys]
    return ["" if run is None else decode(run).removeprefix(named) for run in runs]
