"""What a question met and the store had dropped for its budget: made ready to be encoded again, from token ids.

No file is read for it, so that documents from standard input and from bundles come back, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from store import DocumentEntry, Snapshot

from ..documents import Chunk, Document
from .asked import AskedDocument
from .asking import Stitched
from .prepare import PreparedDocument, document_title
from .prompt import header_ids
from .workspace import Workspace
from .writer import NONE


@dataclass(frozen=True)
class Restored:
    """A document to be stored anew; of its evicted records those under the ``left`` keys stay so."""

    prepared: PreparedDocument
    left: frozenset[bytes] = NONE


def has_evicted(workspace: Workspace, stitched: Stitched) -> bool:
    """Whether a chunk of the prompt had given way."""
    with workspace.store.snapshot() as snapshot:
        return any(snapshot.is_evicted(chunk.key) for chunk in stitched.prompt.chunks)


def restore_evicted(workspace: Workspace, stitched: Stitched) -> Iterator[Restored]:
    """The documents of a prompt that lacked evicted records; only those that this prompt had a use for come back."""
    prompt = stitched.prompt
    seen: set[str] = set()
    for number, document in enumerate(prompt.documents):
        if document.prepared is not None or document.name in seen:
            continue
        seen.add(document.name)
        with workspace.store.snapshot() as snapshot:
            entry = snapshot.document(document.name)
            if entry is None:
                continue
            evicted = {key for key in (*entry.chunk_keys, *entry.position_keys) if snapshot.is_evicted(key)}
            exact_wanted = number == 0 and prompt.preamble == workspace.preamble
            wanted = evicted & _wanted(entry, document, exact=exact_wanted)
            prepared = _prepare(workspace, snapshot, entry) if wanted else None
        if prepared is not None:
            yield Restored(prepared, frozenset(evicted - wanted))


def _wanted(entry: DocumentEntry, document: AskedDocument, *, exact: bool) -> set[bytes]:
    """Keys that this prompt has a use for: its chunks', and those of exact records as far as they are in a row."""
    keys = {chunk.key for chunk in document.chunks}
    if exact and [chunk.place for chunk in document.chunks] == list(range(len(document.chunks))):
        keys.update(entry.position_keys[: len(document.chunks)])
    return keys


def _prepare(workspace: Workspace, snapshot: Snapshot, entry: DocumentEntry) -> PreparedDocument | None:
    """The document from its stored token ids; None if some are lost."""
    codec = workspace.handle.codec
    runs = [ids for key in entry.chunk_keys if (ids := snapshot.token_ids(key)) is not None]
    header = header_ids(codec, document_title(entry.name, entry.root))
    if len(runs) != len(entry.chunk_keys) or runs[0][: len(header)] != header:
        return None
    runs[0] = runs[0][len(header) :]
    texts = [codec.text(run) for run in runs]
    ends = accumulate(map(len, texts), initial=0)
    chunks = tuple(
        Chunk(index, run, start, end)
        for index, (run, (start, end)) in enumerate(zip(runs, pairwise(ends), strict=True))
    )
    document = Document(
        entry.name, entry.root, "".join(texts), entry.kind, entry.content_hash, entry.size_bytes, entry.mtime_ns
    )
    return PreparedDocument(document, chunks, entry.chunk_keys, header)
