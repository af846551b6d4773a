"""What can go wrong with a document.

DocumentError
├── PathNotFound          a named path, or every match of a pattern, is missing
├── InvalidPattern        a --glob or --exclude that is no gitignore pattern
├── DocumentVanished      the file was there when it was discovered
├── DocumentTooLarge      over MAX_DOCUMENT_BYTES
├── EmptyDocument         no bytes, or only white space
└── UnreadableDocument    permission, device error, encryption, damage
    ├── BinaryDocument    holds no text
    ├── NotAFile          a fifo, a socket, a device
    └── UnknownEncoding   text whose character set cannot be told with confidence
"""


class DocumentError(Exception):
    """A document cannot be used: `reason` is the fact, `name` the document's path or name."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(reason, name)
        self.reason = reason
        self.name = name

    def __str__(self) -> str:
        return f"{self.reason}: {self.name}"


class PathNotFound(DocumentError):
    """A named path does not exist, or a pattern matches nothing."""


class InvalidPattern(DocumentError):
    """A pattern cannot be compiled."""


class DocumentVanished(DocumentError):
    """A discovered file no longer exists."""


class DocumentTooLarge(DocumentError):
    """A file has more than MAX_DOCUMENT_BYTES bytes."""


class EmptyDocument(DocumentError):
    """A document holds no text but white space."""


class UnreadableDocument(DocumentError):
    """A document's text cannot be had."""


class BinaryDocument(UnreadableDocument):
    """A file is not text and no converter knows it."""


class NotAFile(UnreadableDocument):
    """A path leads to something that is no regular file."""


class UnknownEncoding(UnreadableDocument):
    """A text's character set cannot be told with confidence."""
