"""Errors of LMDB and of the operating system in the store's own terms."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import (
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadonly,
    StoreUnreadable,
)

PROBE_BYTES = 1 << 20
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_DAMAGED = {"CorruptedError", "InvalidError", "PageNotFoundError", "VersionMismatchError"}


def translate_lmdb_error(directory: Path, kind: str, code: int, text: str) -> StoreError:
    """The store's error for an LMDB error of class `kind` with its `code` (an errno if positive)."""
    if kind == "MapFullError":
        return StoreFull(directory, "its map cannot grow while a snapshot is open")
    if kind in _DAMAGED:
        return StoreDamaged(directory, text)
    if kind == "ReadersFullError":
        return StoreBusy(directory, "every reader slot is taken")
    # LMDB reports a write that a full disk cut short as an I/O error.
    if code in _NO_SPACE or (code == errno.EIO and not has_room(directory)):
        return StoreFull(directory, "no space left on its disk")
    if code in _DENIED:
        return StoreUnreadable(directory, text)
    return StoreFailed(directory, text)


def has_room(directory: Path) -> bool:
    """Whether the disk still takes a megabyte, found out by writing one to a nameless file."""
    import tempfile  # only here: it is rarely needed and slow to import

    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as probe:
            return probe.write(bytes(PROBE_BYTES)) == PROBE_BYTES
    except OSError:
        return False


@contextmanager
def os_errors_translated(directory: Path) -> Iterator[None]:
    """Turns an OSError of the block into the store's error."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise NotAStore(directory) from None
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreFull(directory, "no space left on its disk") from error
        if error.errno in _DENIED:
            raise StoreReadonly(directory) from error
        raise StoreFailed(directory, str(error)) from error
