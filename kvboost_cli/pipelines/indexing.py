"""The index flow: paths -> documents -> chunks -> missing keys -> encode -> quantize -> one transaction each.

``index_documents`` yields an event per document, so that the caller can show progress and count. A document is
stored whole or not at all; running again after an interruption encodes only what is missing.
"""

import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from store import DocumentEntry

from ..documents import (
    Document,
    DocumentError,
    PathNotFound,
    Skipped,
    SourceFile,
    discover,
    fixed_part,
    read_document,
    skipped_for,
)
from .hidden import name_digest
from .pooling import pool_documents
from .prepare import prepare_document
from .preview import DocumentPreview
from .pruning import is_gone
from .shards import Shard, shard_title
from .unchanged import touched_entry, unchanged_entry
from .workspace import Workspace
from .writer import DocumentWriter, Encoded, Indexed


@dataclass(frozen=True)
class IndexRequest:
    """Which documents to index, and how.

    ``listed`` paths come from a file list: one that is missing is skipped, not an error. ``known`` files are taken with
    the root that they tell. Files whose name has a hash among ``hidden`` are left out. ``text_document`` is from
    standard input. ``force`` reads documents that seem unchanged, too; ``dry_run`` changes nothing. With a ``shard``
    only its share of the documents is indexed; what stands before them is chosen from all, as without.
    """

    paths: Sequence[str]
    listed: Sequence[str] = ()
    globs: Sequence[str] = ()
    excludes: Sequence[str] = ()
    text_document: Document | None = None
    prune: bool = False
    force: bool = False
    dry_run: bool = False
    shard: Shard | None = None
    known: Sequence[SourceFile] = ()
    hidden: Set[str] = frozenset()


@dataclass(frozen=True)
class Planned:
    """Discovery is over: so many documents, and bytes of files, have to be read."""

    num_documents: int
    num_bytes: int


@dataclass(frozen=True)
class Removed:
    """A document that is gone from disk was removed from the store."""

    name: str


@dataclass(frozen=True)
class InOtherShard:
    """A document belongs to another shard."""

    source: SourceFile | Document


IndexEvent = Planned | Encoded | Indexed | Removed | Skipped | InOtherShard
Source = SourceFile | Document


def index_documents(workspace: Workspace, request: IndexRequest) -> Iterator[IndexEvent]:
    """Bring the store up to date with the documents; the caller holds the store's writer lock."""
    if not request.dry_run:
        _ = workspace.search  # complete from here on, even if no document has changed
    pending: list[Source] = []
    collection: list[Source] = []
    passed_over: set[str] = set()
    for event in _compare(workspace, request):
        if isinstance(event, (SourceFile, Document)):
            pending.append(event)
            collection.append(event)
            continue
        if isinstance(event, InOtherShard):
            collection.append(event.source)
        if isinstance(event, Skipped) and not event.failed:
            passed_over.add(event.path)
        yield event
    yield Planned(len(pending), sum(source.size_bytes for source in pending))
    yield from _index_pending(workspace, pending, collection, request)
    if request.prune:
        for name in _gone(workspace, [*request.paths, *request.listed], passed_over):
            if not request.dry_run:
                workspace.store.remove_document(name)
                workspace.search.remove_document(name)
            yield Removed(name)


def _compare(
    workspace: Workspace, request: IndexRequest
) -> Iterator[SourceFile | Document | Skipped | Indexed | InOtherShard]:
    """Documents to read, files passed over, documents that have not changed or are not this run's."""
    given = [] if request.text_document is None else [request.text_document]
    for item in chain(given, _discover(workspace, request)):
        if not isinstance(item, Skipped) and request.shard is not None and not request.shard.has(shard_title(item)):
            yield InOtherShard(item)
            continue
        if isinstance(item, SourceFile) and not request.force:
            entry = unchanged_entry(workspace, item)
            if entry is not None:
                yield _unchanged(entry, item.size_bytes, was_read=False)
                continue
        yield item


def _discover(workspace: Workspace, request: IndexRequest) -> Iterator[SourceFile | Skipped]:
    """Every file once, whether it was named or listed, but none of the store's own; named paths are checked first.

    With ``prune`` a missing path of which the store has documents is no error: they are about to be removed.
    """
    paths, listed_paths = list(request.paths), list(request.listed)
    if request.prune:
        paths, listed_paths = _without_removed(workspace, paths), _without_removed(workspace, listed_paths)
    named = discover(paths, globs=request.globs, excludes=request.excludes)
    listed = discover(listed_paths, globs=request.globs, excludes=request.excludes, missing_ok=True)
    seen: set[str] = set()
    for item in chain(named, listed, request.known):
        path = str(item.path)
        if path in seen or _is_at_or_below(os.path.realpath(path), [str(workspace.store.path)]):
            continue
        seen.add(path)
        if not request.hidden or name_digest(path) not in request.hidden:
            yield item


def _without_removed(workspace: Workspace, paths: Sequence[str]) -> list[str]:
    """The paths without those that match nothing any more but have documents in the store."""
    missing = {path for path in paths if not matches_something(path)}
    if not missing:
        return list(paths)
    with workspace.store.snapshot() as snapshot:
        names = list(snapshot.document_names())
    removed = {path for path in missing if any(_is_at_or_below(name, [path]) for name in names)}
    return [path for path in paths if path not in removed]


def matches_something(path: str) -> bool:
    """Whether there is such a file or folder, or a file that fits such a pattern."""
    try:
        discover([path])
    except PathNotFound:
        return False
    return True


def _unchanged(entry: DocumentEntry, size_bytes: int, *, was_read: bool) -> Indexed:
    num_chunks, tokens = len(entry.chunk_keys), entry.num_tokens
    return Indexed(entry.name, "unchanged", size_bytes, was_read, tokens, num_reused_chunks=num_chunks)


def _choose_writer(
    workspace: Workspace, collection: Sequence[Source], request: IndexRequest
) -> DocumentWriter | DocumentPreview:
    if request.dry_run:
        return DocumentPreview(workspace)
    return DocumentWriter(workspace, lambda: pool_documents(workspace, collection), verify=request.force)


def _index_pending(
    workspace: Workspace, pending: Sequence[Source], collection: Sequence[Source], request: IndexRequest
) -> Iterator[IndexEvent]:
    writer = _choose_writer(workspace, collection, request)
    for source in pending:
        try:
            document = source if isinstance(source, Document) else read_document(source)
        except DocumentError as error:
            yield skipped_for(error, explicit=isinstance(source, SourceFile) and source.explicit)
            continue
        touched = None if request.force else touched_entry(workspace, document)
        if touched is not None:
            if not request.dry_run:
                workspace.store.touch_document(touched)
            yield _unchanged(touched, document.size_bytes, was_read=True)
            continue
        yield from writer.add(prepare_document(document, workspace.handle.codec, workspace.keys))
    yield from writer.flush()


def _gone(workspace: Workspace, paths: Sequence[str], passed_over: set[str]) -> list[str]:
    """Stored documents at or below the paths whose file is no more, or has become what is no document."""
    with workspace.store.snapshot() as snapshot:
        names = [name for name in snapshot.document_names() if _is_at_or_below(name, paths)]
    return [name for name in names if name in passed_over or is_gone(name)]


def _is_at_or_below(name: str, paths: Sequence[str]) -> bool:
    roots = (fixed_part(path) for path in paths)
    return any(name == root or name.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
