"""A compacted copy takes the data file's place, at once for whoever opens the store.

LMDB keeps its readers and its last transaction's number in lock.mdb. They belong to one data file, so the two files
have to change together. A rename of the checked copy to READY_NAME is the moment that counts:

1. the copy is renamed to READY_NAME          from here on the old file is dead, and nobody writes to it
2. lock.mdb is removed                        LMDB makes a new one; processes that are at work keep the old one open
3. READY_NAME is renamed to data.mdb

Whoever opens the store, or is about to write to it, and finds READY_NAME does what is left of this. Nobody opens the
files in between: an opening holds a shared lock on the marker file, the steps hold it exclusively.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .datafile import DATA_NAME
from .marker import MARKER_NAME, sync_directory

COPY_NAME = f"{DATA_NAME}.copy"
READY_NAME = f"{DATA_NAME}.ready"
LMDB_LOCK_NAME = "lock.mdb"

FileId = tuple[int, int]


class OpenedFiles(NamedTuple):
    """Which directory and which data file were opened, by device and inode."""

    directory: FileId
    data: FileId

    @classmethod
    def of(cls, directory: Path) -> "OpenedFiles":
        """What is there now; raises OSError."""
        return cls(file_id(directory), file_id(directory / DATA_NAME))


def file_id(path: Path) -> FileId:
    """Device and inode."""
    status = path.stat()
    return status.st_dev, status.st_ino


def is_superseded(directory: Path, opened: OpenedFiles) -> bool:
    """Whether a compacted file took, or is taking, the place of the one that was opened in this directory.

    A directory that was moved away or removed meanwhile keeps its file.
    """
    try:
        if file_id(directory) != opened.directory:
            return False
        return file_id(directory / DATA_NAME) != opened.data or _may_finish(directory)
    except OSError:
        return False


@contextmanager
def settled(directory: Path) -> Iterator[None]:
    """Inside the block the store's files are one pair and stay so; a swap that was cut short is finished first.

    A store that is being made has no marker yet, and cannot be compacted.
    """
    try:
        descriptor = os.open(directory / MARKER_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _may_finish(directory):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _finish(directory)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def put_copy_in_place(directory: Path) -> None:
    """Makes COPY_NAME, which is whole and on disk, the data file. The caller holds LMDB's write lock."""
    descriptor = os.open(directory / MARKER_NAME, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.replace(directory / COPY_NAME, directory / READY_NAME)
        sync_directory(directory)
        _finish(directory)
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Removes the unfinished copy of a compaction that was cut short. The caller holds the writer lock."""
    (directory / COPY_NAME).unlink(missing_ok=True)


def _may_finish(directory: Path) -> bool:
    """Whether a copy is ready, and this process may put it in place; who may not, reads the old file."""
    return (directory / READY_NAME).exists() and os.access(directory, os.W_OK)


def _finish(directory: Path) -> None:
    if not (directory / READY_NAME).exists():
        return  # another process was faster
    (directory / LMDB_LOCK_NAME).unlink(missing_ok=True)
    os.replace(directory / READY_NAME, directory / DATA_NAME)
    sync_directory(directory)
