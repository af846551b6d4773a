"""The search index of a store: opened, and made again from the store's token ids where it lacks something."""

from collections.abc import Callable, Sequence

from store import ChunkStore, DocumentEntry, Snapshot

from ..retrieval import SearchIndex, SearchIndexDamaged, remove_index

FILE_NAME = "search.sqlite"

Decode = Callable[[Sequence[int]], str]
"""Token ids to text."""


def open_search(store: ChunkStore, decode: Decode, *, complete: bool) -> SearchIndex:
    """The index beside the store; with ``complete`` it has every document that the store has.

    It is derived data: a damaged file is made anew. Raises the retrieval package's other errors.
    """
    path = store.path / FILE_NAME
    if store.readonly:
        return SearchIndex(path, readonly=True)
    try:
        return _opened(store, SearchIndex(path), decode, complete)
    except SearchIndexDamaged:
        remove_index(path)
        return _opened(store, SearchIndex(path), decode, complete=True)


def _opened(store: ChunkStore, search: SearchIndex, decode: Decode, complete: bool) -> SearchIndex:
    try:
        if complete:
            _complete(store, search, decode)
    except BaseException:
        search.close()
        raise
    return search


def _complete(store: ChunkStore, search: SearchIndex, decode: Decode) -> None:
    """Index the stored documents that the search index lacks or has in another version."""
    hashes = search.document_hashes()
    with store.snapshot() as snapshot:
        for entry in snapshot.documents():
            if hashes.get(entry.name) != entry.content_hash:
                search.replace_document(entry.name, entry.content_hash, _chunk_texts(snapshot, entry, decode))


def _chunk_texts(snapshot: Snapshot, entry: DocumentEntry, decode: Decode) -> list[str]:
    headers = [snapshot.header(key) for key in entry.chunk_keys]
    return ["" if header is None else decode(header.token_ids) for header in headers]
