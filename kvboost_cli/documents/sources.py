"""The nouns of this package: what was found, what was passed over, what was read."""

from dataclasses import dataclass
from pathlib import Path

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class SourceFile:
    """A readable regular file that discovery chose.

    `path` is absolute and normalised; symbolic links in it are kept. `root` is the named folder, the fixed
    part of a pattern, or a named file's folder. `explicit` is True for a file that was named itself.
    """

    path: Path
    root: Path
    size_bytes: int
    mtime_ns: int
    explicit: bool = False


@dataclass(frozen=True)
class Skipped:
    """A path that gives no document. `failed` is True where the user would count it as an error."""

    path: str
    reason: str
    failed: bool


@dataclass(frozen=True)
class Document:
    """A document's text and where it came from.

    `name` is the absolute path or "stdin". `kind` is text, markdown, rest, code, html or pdf: what the source
    was; html has become Markdown in `text`. Newlines are "\\n"; there are no lone surrogates.
    `content_hash` is the BLAKE3 hex digest of the text in UTF-8. `size_bytes` and `mtime_ns` are the file's
    just before it was read (0 for text that came from no file).
    """

    name: str
    root: str
    text: str
    kind: str
    content_hash: str
    size_bytes: int
    mtime_ns: int
