"""Whether what the store has of a document still serves: the file as it was, the recipe, every record there."""

from dataclasses import replace

from store import DocumentEntry, Snapshot

from ..documents import Document, SourceFile
from .prepare import document_title
from .workspace import Workspace


def unchanged_entry(workspace: Workspace, source: SourceFile) -> DocumentEntry | None:
    """The entry of a file whose size and time are as stored, made by this recipe, all records present."""
    with workspace.store.snapshot() as snapshot:
        entry = snapshot.document(str(source.path))
        if entry is None or not is_current(workspace, entry, source.size_bytes, source.mtime_ns):
            return None
        return entry if _is_whole(workspace, snapshot, entry) else None


def touched_entry(workspace: Workspace, document: Document) -> DocumentEntry | None:
    """The entry, with the file's new size and time, of a document whose text is as stored, all records present."""
    with workspace.store.snapshot() as snapshot:
        entry = snapshot.document(document.name)
        same = entry is not None and entry.content_hash == document.content_hash
        if entry is None or not same or entry.recipe != workspace.recipe.digest.hex():
            return None
        if not _is_whole(workspace, snapshot, entry) or _is_retitled(workspace, entry, document):
            return None
    return replace(entry, size_bytes=document.size_bytes, mtime_ns=document.mtime_ns, root=document.root)


def is_current(workspace: Workspace, entry: DocumentEntry, size_bytes: int, mtime_ns: int) -> bool:
    """Whether an entry was made from a file of this size and time, by the workspace's recipe."""
    same_file = (entry.size_bytes, entry.mtime_ns) == (size_bytes, mtime_ns)
    return same_file and entry.recipe == workspace.recipe.digest.hex()


def _is_whole(workspace: Workspace, snapshot: Snapshot, entry: DocumentEntry) -> bool:
    """Whether no record is lost: evicted ones are made anew when a question needs them.

    A store that had other settings meanwhile has lost the positional ones.
    """
    has_exact = bool(entry.position_keys) or not workspace.recipe.exact
    return has_exact and not snapshot.lost([*entry.chunk_keys, *entry.position_keys])


def _is_retitled(workspace: Workspace, entry: DocumentEntry, document: Document) -> bool:
    """Whether its exact KV begins with a header that names it otherwise, since it was indexed below another folder."""
    titles = {document_title(entry.name, entry.root), document_title(document.name, document.root)}
    return workspace.recipe.exact and len(titles) > 1
