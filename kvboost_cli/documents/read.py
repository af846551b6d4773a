"""From a discovered file, given bytes or given text to a Document."""

from .decode import clean_text, decode_text
from .errors import EmptyDocument
from .files import check_head, check_size, open_document
from .kinds import HEAD_BYTES, kind_of
from .sources import MAX_DOCUMENT_BYTES, Document, SourceFile


def read_document(source: SourceFile) -> Document:
    """Read and convert one file. Raises DocumentError, each kind with its reason; never blocks on a fifo."""
    path = str(source.path)
    with open_document(path) as (file, info):
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    return _from_bytes(path, str(source.root), data, info.st_mtime_ns)


def document_from_bytes(name: str, data: bytes) -> Document:
    """Make a Document of a file's content that came by another way, such as standard input. Raises DocumentError."""
    return _from_bytes(name, "", data, 0)


def document_from_text(name: str, text: str) -> Document:
    """Make a Document of text, such as standard input ("stdin"); HTML is converted. Raises DocumentError."""
    data = text.encode("utf-8", "surrogatepass")
    check_size(name, len(data))
    kind = kind_of(name, data[:HEAD_BYTES])
    if kind == "html":
        from .from_html import markup_to_markdown

        text = markup_to_markdown(name, text)
    return _document(name, "", clean_text(text), "text" if kind == "pdf" else kind, len(data), 0)


def hash_text(text: str) -> str:
    """Return the BLAKE3 hex digest of a text in UTF-8; lone surrogates are hashed too."""
    from blake3 import blake3

    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest()


def _from_bytes(name: str, root: str, data: bytes, mtime_ns: int) -> Document:
    check_size(name, len(data))
    head = data[:HEAD_BYTES]
    check_head(name, head, is_whole=len(data) <= HEAD_BYTES)
    kind = kind_of(name, head)
    return _document(name, root, _convert(name, data, kind), kind, len(data), mtime_ns)


def _convert(name: str, data: bytes, kind: str) -> str:
    if kind == "pdf":
        from .from_pdf import pdf_to_text

        return pdf_to_text(name, data)
    if kind == "html":
        from .from_html import html_to_markdown

        return html_to_markdown(name, data)
    return decode_text(name, data)


def _document(name: str, root: str, text: str, kind: str, size_bytes: int, mtime_ns: int) -> Document:
    if not text or text.isspace():
        raise EmptyDocument("an empty document", name)
    return Document(name, root, text, kind, hash_text(text), size_bytes, mtime_ns)
