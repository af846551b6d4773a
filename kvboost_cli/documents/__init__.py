"""From paths to documents to chunks of token ids. Knows nothing of models, stores or terminals.

`discover` finds files, `read_document` turns one into text, `chunk_document` cuts the text. The converters for PDF,
HTML and unknown character sets are imported only when a file needs them.
"""

from .boundaries import Rank
from .chunk import MAX_TOKENS, MIN_TOKENS, Chunk, TokenizedText, chunk_document, plan_cuts
from .discover import discover, fixed_part, read_file_list
from .errors import (
    BinaryDocument,
    DocumentError,
    DocumentTooLarge,
    DocumentVanished,
    EmptyDocument,
    InvalidPattern,
    NotAFile,
    PathNotFound,
    UnknownEncoding,
    UnreadableDocument,
)
from .ignore import DEFAULT_EXCLUDES
from .inspect_file import skipped_for
from .read import document_from_bytes, document_from_text, hash_text, read_document
from .sources import MAX_DOCUMENT_BYTES, Document, Skipped, SourceFile

__all__ = [
    "DEFAULT_EXCLUDES",
    "MAX_DOCUMENT_BYTES",
    "MAX_TOKENS",
    "MIN_TOKENS",
    "BinaryDocument",
    "Chunk",
    "Document",
    "DocumentError",
    "DocumentTooLarge",
    "DocumentVanished",
    "EmptyDocument",
    "InvalidPattern",
    "NotAFile",
    "PathNotFound",
    "Rank",
    "Skipped",
    "SourceFile",
    "TokenizedText",
    "UnknownEncoding",
    "UnreadableDocument",
    "chunk_document",
    "discover",
    "document_from_bytes",
    "document_from_text",
    "fixed_part",
    "hash_text",
    "plan_cuts",
    "read_document",
    "read_file_list",
    "skipped_for",
]
