"""Opening files without ever blocking on one, with the system's errors told as this package's own."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from .errors import (
    BinaryDocument,
    DocumentError,
    DocumentTooLarge,
    DocumentVanished,
    EmptyDocument,
    NotAFile,
    UnreadableDocument,
)
from .kinds import HEAD_BYTES, is_binary
from .sources import MAX_DOCUMENT_BYTES

# O_NONBLOCK: a fifo may have taken the file's place since it was looked at.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SORTS = (
    (stat.S_ISDIR, "a folder, not a file"),
    (stat.S_ISFIFO, "a fifo, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
)


@contextmanager
def open_document(path: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a regular file of acceptable size; what the system refuses inside the block becomes a DocumentError."""
    try:
        _check(path, os.stat(path))
        with open(os.open(path, _FLAGS), "rb") as file:
            info = os.fstat(file.fileno())
            _check(path, info)
            yield file, info
    except OSError as error:
        raise translate_os_error(error, path) from error


def read_head(path: str) -> tuple[bytes, os.stat_result]:
    """Return a file's first HEAD_BYTES and its state, once they look like text or PDF. Raises DocumentError."""
    with open_document(path) as (file, info):
        head = file.read(HEAD_BYTES)
    check_head(path, head, is_whole=info.st_size <= HEAD_BYTES)
    return head, info


def check_head(name: str, head: bytes, *, is_whole: bool) -> None:
    """Refuse binary content and, where `head` is all there is, emptiness."""
    if is_whole and not head.strip():
        raise EmptyDocument("an empty document", name)
    if is_binary(name, head):
        raise BinaryDocument("a binary file", name)


def check_size(name: str, size_bytes: int) -> None:
    """Refuse more than MAX_DOCUMENT_BYTES."""
    if size_bytes > MAX_DOCUMENT_BYTES:
        raise DocumentTooLarge(f"larger than {MAX_DOCUMENT_BYTES // 1024**2} MiB", name)


def translate_os_error(error: OSError, path: str) -> DocumentError:
    """Say what the operating system said, in this package's terms."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return DocumentVanished("gone since it was found", path)
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableDocument(f"cannot be read, {reason}", path)


def _check(path: str, info: os.stat_result) -> None:
    for is_sort, reason in _SORTS:
        if is_sort(info.st_mode):
            raise NotAFile(reason, path)
    check_size(path, info.st_size)
