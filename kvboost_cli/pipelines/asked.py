"""The documents of a question: found in the store or read from disk, in prompt order."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from store import ChunkStore, DocumentEntry, Snapshot

from ..documents import DocumentError, SourceFile, read_document
from ..retrieval import select_documents
from .errors import AmbiguousDocument, DocumentGone, DocumentNotFound
from .excerpt import choose_places
from .prepare import PreparedDocument, document_title, prepare_document
from .prompt import header_ids
from .unchanged import is_current
from .workspace import Workspace

MAX_EXCERPT_TOKENS = 1024
"""A document that search picked gives at most this much; one that was named is taken whole."""

MAX_HITS = 2000
"""Chunks that a search may find: so many that one long document does not hide all others."""


@dataclass(frozen=True)
class AskedChunk:
    """A chunk of a document in the prompt; ``place`` is its number in the document, ``key`` that of its record."""

    place: int
    key: bytes
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class AskedDocument:
    """A document in the prompt, with some or all of its ``num_chunks`` chunks.

    ``prepared`` is set when it was read from disk and should be written back.
    """

    name: str
    title: str
    chunks: tuple[AskedChunk, ...]
    num_chunks: int
    prepared: PreparedDocument | None

    @property
    def num_tokens(self) -> int:
        """Tokens of the chunks, without the header."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)


def named_documents(workspace: Workspace, names: Sequence[str]) -> list[AskedDocument]:
    """The documents that ``-d`` names, in that order.

    A name is a file, the full name of a stored document, or the end of exactly one stored name.
    Raises ``DocumentNotFound``, ``AmbiguousDocument`` or a ``DocumentError`` of the file.
    """
    return [_fetch(workspace, resolve_name(workspace.store, name)) for name in names]


def refetch(workspace: Workspace, documents: Sequence[AskedDocument]) -> list[AskedDocument]:
    """The same documents as they are now; of one that is an excerpt the same places, as far as they are there.

    Raises ``DocumentGone`` or a ``DocumentError`` of the file.
    """
    return [_same_places(_fetch(workspace, document.name), document) for document in documents]


def _same_places(document: AskedDocument, before: AskedDocument) -> AskedDocument:
    if len(before.chunks) == before.num_chunks:
        return document
    places = {chunk.place for chunk in before.chunks}
    chosen = tuple(chunk for chunk in document.chunks if chunk.place in places)
    return replace(document, chunks=chosen or document.chunks)


@dataclass(frozen=True)
class FoundDocuments:
    """What a search gave, best first, and why better ones were passed over."""

    documents: tuple[AskedDocument, ...]
    passed_over: tuple[str, ...]


def found_documents(workspace: Workspace, question: str, top_k: int, max_tokens: int) -> FoundDocuments:
    """The ``top_k`` documents that BM25 ranks best; long ones as excerpts of at most ``max_tokens``.

    One that is gone or unreadable since it was indexed is passed over: the next best takes its place.
    """
    hits = workspace.search.search(question, limit=MAX_HITS)
    documents: list[AskedDocument] = []
    passed_over: list[str] = []
    for name in select_documents(hits, len(hits)):
        places = [hit.chunk_index for hit in hits if hit.name == name]
        try:
            document = _fetch(workspace, name)
        except (DocumentNotFound, DocumentError) as error:
            passed_over.append(str(error))
            continue
        documents.append(_excerpt(document, places, min(max_tokens, MAX_EXCERPT_TOKENS)))
        if len(documents) == top_k:
            break
    return FoundDocuments(tuple(documents), tuple(passed_over))


def _excerpt(document: AskedDocument, best_places: Sequence[int], max_tokens: int) -> AskedDocument:
    sizes = [len(chunk.token_ids) for chunk in document.chunks]
    places = choose_places(sizes, best_places, max_tokens)
    return replace(document, chunks=tuple(document.chunks[place] for place in places))


def reread(workspace: Workspace, name: str) -> PreparedDocument:
    """A document from disk, whatever the store has."""
    with workspace.store.snapshot() as snapshot:
        entry = snapshot.document(name)
    return _read_from_disk(workspace, name, entry)


def _fetch(workspace: Workspace, name: str) -> AskedDocument:
    """A document as the store has it, if it is whole there and unchanged on disk, else read anew."""
    with workspace.store.snapshot() as snapshot:
        entry = snapshot.document(name)
        if entry is not None and _is_fresh(workspace, entry):
            stored = _from_store(workspace, snapshot, entry)
            if stored is not None:
                return stored
    return _from_disk(workspace, name, entry)


def _is_fresh(workspace: Workspace, entry: DocumentEntry) -> bool:
    """Whether the file is as it was indexed; a text that came from standard input has no file."""
    if not os.path.isabs(entry.name):
        return is_current(workspace, entry, entry.size_bytes, entry.mtime_ns)
    try:
        info = os.stat(entry.name)
    except OSError:
        return False
    return is_current(workspace, entry, info.st_size, info.st_mtime_ns)


def _from_store(workspace: Workspace, snapshot: Snapshot, entry: DocumentEntry) -> AskedDocument | None:
    title = document_title(entry.name, entry.root)
    named = header_ids(workspace.handle.codec, title)
    chunks = []
    for place, key in enumerate(entry.chunk_keys):
        token_ids = snapshot.token_ids(key)  # known of evicted ones, too
        before = () if place else named
        if token_ids is None or token_ids[: len(before)] != before:
            return None
        chunks.append(AskedChunk(place, key, token_ids[len(before) :]))
    return AskedDocument(entry.name, title, tuple(chunks), len(chunks), None)


def _from_disk(workspace: Workspace, name: str, entry: DocumentEntry | None) -> AskedDocument:
    prepared = _read_from_disk(workspace, name, entry)
    chunks = tuple(
        AskedChunk(chunk.index, key, chunk.token_ids) for chunk, key in zip(prepared.chunks, prepared.keys, strict=True)
    )
    return AskedDocument(name, document_title(name, prepared.document.root), chunks, len(chunks), prepared)


def _read_from_disk(workspace: Workspace, name: str, entry: DocumentEntry | None) -> PreparedDocument:
    if not os.path.isabs(name):  # what came from standard input or from a bundle; no file of that name is its own
        raise DocumentGone(f"the document has no file to be read from, and is not whole in the store: {name}")
    try:
        info = os.stat(name)
    except OSError as error:
        raise DocumentGone(f"the document cannot be read any more ({error.strerror}): {name}") from error
    root = os.path.dirname(name) if entry is None else entry.root
    document = read_document(SourceFile(Path(name), Path(root), info.st_size, info.st_mtime_ns, explicit=True))
    return prepare_document(document, workspace.handle.codec, workspace.keys)


def resolve_name(store: ChunkStore, name: str) -> str:
    """The file, or the stored document, that a user's name means; raises DocumentNotFound, AmbiguousDocument."""
    path = os.path.abspath(os.path.expanduser(name))
    if os.path.isfile(path):
        return path
    with store.snapshot() as snapshot:
        return find_stored_name(snapshot, name)


def find_stored_name(snapshot: Snapshot, name: str) -> str:
    """The stored document of this name, or the one whose name ends in it.

    Raises ``DocumentNotFound``, ``AmbiguousDocument``.
    """
    if snapshot.document(name) is not None:
        return name
    names = list(snapshot.document_names())
    fitting = [stored for stored in names if stored.endswith(f"{os.sep}{name}")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise AmbiguousDocument(f"{len(fitting)} documents end in this name, {', '.join(fitting[:3])}: {name}")
    raise DocumentNotFound(f"there is no such document or file{suggest(name, names)}: {name}")


def suggest(name: str, names: Sequence[str]) -> str:
    """In brackets, the name nearest to what was written, whatever its case, with or without its ending."""
    short: dict[str, str] = {}
    for base in map(os.path.basename, names):
        short[os.path.splitext(base)[0].casefold()] = base
        short[base.casefold()] = base
    close = difflib.get_close_matches(os.path.basename(name).casefold(), short, n=1)
    return f" (did you mean {short[close[0]]}?)" if close else ""
