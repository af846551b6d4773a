"""Which documents of a collection give the fillers of a new store."""

from collections.abc import Iterator, Sequence

from ..documents import Document, DocumentError, SourceFile, read_document
from .fillers import POOL_SIZE
from .workspace import Workspace

FILLER_HEAD_CHARACTERS = 16384
"""As much of a document as can be needed for a filler, however long its words."""


def pool_documents(
    workspace: Workspace, collection: Sequence[SourceFile | Document]
) -> Iterator[tuple[str, Sequence[int]]]:
    """Content hash and token ids of readable documents, those spread over the collection first."""
    codec = workspace.handle.codec
    for source in _spread(collection, POOL_SIZE):
        try:
            document = source if isinstance(source, Document) else read_document(source)
        except DocumentError:
            continue  # reported when its turn to be indexed comes
        yield document.content_hash, codec.token_ids(document.text[:FILLER_HEAD_CHARACTERS])


def _spread(items: Sequence[SourceFile | Document], count: int) -> list[SourceFile | Document]:
    """Up to ``4 * count`` items: first ``count`` evenly spaced ones, then those between them."""
    stride = max(1, len(items) // (4 * count))
    candidates = items[::stride][: 4 * count]
    return [*candidates[::4], *(item for index, item in enumerate(candidates) if index % 4)]
