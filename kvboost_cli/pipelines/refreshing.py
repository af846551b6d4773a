"""The first half of ``prewarm``: the stored documents as their files are now, and what is new in indexed folders."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from store import DocumentEntry

from ..documents import Skipped, SourceFile, fixed_part
from .folders import Folders, IndexedFolder, read_folders
from .hidden import name_digest
from .indexing import IndexEvent, IndexRequest, Removed, index_documents, matches_something
from .pruning import PrunePlan, plan_prune, prune, root_is_missing
from .shards import Shard
from .workspace import Workspace
from .writer import Indexed


@dataclass(frozen=True)
class Deadline:
    """When to begin nothing more, in seconds of ``time.monotonic``; None is never."""

    at_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the time is up. What has begun is finished: else it would be begun in vain each time."""
        return self.at_s is not None and monotonic() >= self.at_s


def folders_of(request: IndexRequest) -> list[IndexedFolder]:
    """The folders and patterns that a run takes; a file that is named itself is known by its entry."""
    shard = None if request.shard is None else str(request.shard)
    return [
        IndexedFolder(path, tuple(request.globs), tuple(request.excludes), shard)
        for path in map(os.path.abspath, (*request.paths, *request.listed))
        if not os.path.isfile(path) and matches_something(path)
    ]


def refresh_documents(workspace: Workspace, deadline: Deadline, *, dry_run: bool = False) -> Iterator[IndexEvent]:
    """Index again what was indexed, and drop what is gone; the caller holds the store's writer lock.

    A folder that is missing or empty may be a disk that is not mounted: it is passed over, and its documents stay.
    """
    seen: set[str] = set()
    emptied: set[str] = set()
    for event in _index_again(workspace, dry_run, seen):
        if isinstance(event, Skipped) and not event.failed:
            emptied.add(event.path)
        yield event
        if isinstance(event, Indexed) and event.was_read and deadline.is_over:
            return
    plan = _plan_removal(workspace, emptied)
    if not dry_run and (plan.gone or plan.superseded):
        prune(workspace.store, plan)
    yield from map(Removed, plan.gone)


def _index_again(workspace: Workspace, dry_run: bool, seen: set[str]) -> Iterator[IndexEvent]:
    """All folders, then the documents that none of them gave, such as files that were named themselves."""
    with workspace.store.snapshot() as snapshot:
        folders, names = read_folders(snapshot), list(snapshot.document_names())
    hidden = folders.forgotten - set(map(name_digest, names))
    for request in _requests(folders):
        (path,) = request.paths
        if root_is_missing(fixed_part(path)):
            yield Skipped(path, "the folder is missing or empty", failed=False)
            continue
        if not matches_something(path):  # what matched the pattern is gone, and is dropped as such
            continue
        for event in index_documents(workspace, replace(request, hidden=hidden, dry_run=dry_run)):
            told = event.name if isinstance(event, Indexed) else event.path if isinstance(event, Skipped) else None
            is_known = told in seen and isinstance(event, Indexed) and not event.was_read
            if told is not None:
                seen.add(told)
            if not is_known:  # an unchanged document of two folders counts once
                yield event
    with workspace.store.snapshot() as snapshot:
        others = (snapshot.document(name) for name in names if name not in seen)
        known = [source for entry in others if entry is not None for source in _source(entry)]
    if known:
        yield from index_documents(workspace, IndexRequest((), known=known, dry_run=dry_run))


def _requests(folders: Folders) -> Iterator[IndexRequest]:
    """One for each folder or pattern."""
    for folder in folders.indexed:
        shard = None if folder.shard is None else Shard.parse(folder.shard)
        yield IndexRequest([folder.path], globs=folder.globs, excludes=folder.excludes, shard=shard)


def _source(entry: DocumentEntry) -> Iterator[SourceFile]:
    """The file of a document, named as it is in the store."""
    if not os.path.isabs(entry.name):
        return
    try:
        info = os.stat(entry.name)
    except OSError:
        return
    if stat.S_ISREG(info.st_mode):
        yield SourceFile(Path(entry.name), Path(entry.root), info.st_size, info.st_mtime_ns, explicit=True)


def _plan_removal(workspace: Workspace, emptied: set[str]) -> PrunePlan:
    """Documents whose files are gone, and those whose files have become what is no document."""
    plan = plan_prune(workspace.store)
    with workspace.store.snapshot() as snapshot:
        no_documents = [name for name in sorted(emptied) if snapshot.document(name) is not None]
    gone = dict.fromkeys([*plan.gone, *no_documents])
    superseded = tuple(name for name in plan.superseded if name not in gone)
    return replace(plan, gone=tuple(gone), superseded=superseded)
