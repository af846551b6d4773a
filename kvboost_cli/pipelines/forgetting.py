"""Forgetting a document: everything in the store that is of it, or names it.

What stays: the same text in other documents, and, if a stretch of it served as a filler, the KV that other documents
got behind it, which is an average over such contexts. See docs/store.md.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store import ChunkStore, DamagedRecord, Forgotten, Snapshot, asked_names, forget_documents

from .asked import find_stored_name
from .errors import DocumentNotFound
from .fillers import META_NAME as FILLERS_NAME
from .fillers import Filler, is_neutral, pool_from_bytes, pool_to_bytes
from .folders import META_NAME as FOLDERS_NAME
from .folders import folders_to_bytes, read_folders
from .upkeep import drop_from_search, existing_search


@dataclass(frozen=True)
class ForgetReport:
    """The documents' full names, what the store dropped, and how many fillers were taken out of the pool."""

    names: tuple[str, ...]
    forgotten: Forgotten
    num_fillers: int


def resolve_forgotten(store: ChunkStore, names: Iterable[str]) -> tuple[str, ...]:
    """The full names of documents to forget: stored ones, or such as only past asks or the search index name.

    A name is a file's path, whether or not the file exists, the full name of a document, or the end of exactly one
    stored name. Raises ``DocumentNotFound``, ``AmbiguousDocument``.
    """
    return tuple(dict.fromkeys(_resolve(store, name) for name in names))


def forget(store: ChunkStore, names: Sequence[str]) -> ForgetReport:
    """Remove documents, and all that names them; the caller holds the writer lock.

    A file that stays in an indexed folder is not taken up again by ``prewarm``: a hash of its name is kept for that.
    Interrupted, it can be run again. Raises ``DamagedRecord`` for a document whose entry cannot be read: what it
    named is not known then.
    """
    with store.snapshot() as snapshot:
        kept, num_fillers = _kept_fillers(snapshot, names)
        folders = read_folders(snapshot)
    drop_from_search(store, names)
    meta = {FILLERS_NAME: pool_to_bytes(kept)} if num_fillers else {}
    hidden = folders.with_forgotten(names)
    if hidden != folders:
        meta[FOLDERS_NAME] = folders_to_bytes(hidden)
    return ForgetReport(tuple(names), forget_documents(store, names, meta), num_fillers)


def _resolve(store: ChunkStore, name: str) -> str:
    path = os.path.abspath(os.path.expanduser(name))
    with store.snapshot() as snapshot:
        for exact in (path, name):
            if snapshot.document(exact) is not None:
                return exact
        if snapshot.damaged:
            raise DamagedRecord(f"the entry of the document {path}")
        try:
            return find_stored_name(snapshot, name)
        except DocumentNotFound:
            if path in _traces(store):
                return path
            raise


def _traces(store: ChunkStore) -> set[str]:
    """Documents that something names although they may not be stored any more."""
    with existing_search(store) as search:
        searched = set() if search is None else set(search.document_hashes())
    return asked_names(store) | searched


def _kept_fillers(snapshot: Snapshot, names: Sequence[str]) -> tuple[tuple[Filler, ...], int]:
    """The pool without what does not come from a document that stays, as it is now; and how many that takes out.

    A filler knows its document by the hash of its text alone. So one whose text is in no stored document may be of an
    earlier state of a forgotten one, and is taken out, too.
    """
    data = snapshot.meta(FILLERS_NAME)
    pool = (data and pool_from_bytes(data)) or ()
    staying = {entry.content_hash for entry in snapshot.documents() if entry.name not in names}
    kept = tuple(filler for filler in pool if is_neutral(filler) or filler.source in staying)
    return kept, len(pool) - len(kept)
