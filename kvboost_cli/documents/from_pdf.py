"""PDF to text with pypdf, used only here."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from .decode import clean_text
from .errors import DocumentError, UnreadableDocument


def pdf_to_text(name: str, data: bytes) -> str:
    """Return the text layer, pages joined by blank lines. Raises UnreadableDocument with the reason."""
    try:
        with _quiet_pypdf():
            pages = _page_texts(name, data)
    except DocumentError:
        raise
    # Damaged files make pypdf raise nearly any kind of exception, not only its own.
    except Exception as error:
        raise UnreadableDocument("a damaged PDF", name) from error
    text = clean_text("\n\n".join(page for page in pages if page))
    if not text.strip():
        raise UnreadableDocument("a PDF without a text layer", name)
    return text + "\n"


def _page_texts(name: str, data: bytes) -> list[str]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, WrongPasswordError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("an encrypted PDF", name)
        return [page.extract_text().strip() for page in reader.pages]
    # DependencyError: AES needs the optional package `cryptography`.
    except (DependencyError, FileNotDecryptedError, WrongPasswordError) as error:
        raise UnreadableDocument("an encrypted PDF", name) from error


@contextmanager
def _quiet_pypdf() -> Iterator[None]:
    """Keep pypdf's remarks on sloppy files out of the user's terminal for a while."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
