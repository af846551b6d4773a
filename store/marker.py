"""What makes a directory a store: its marker file, written last, and its lock file, written first.

kvboost-store.lock   locked by the process that creates or indexes; present first, so an unfinished
                     creation is told from a stranger's directory
data.mdb, lock.mdb   LMDB
kvboost-store.json   {"format": "kvboost-store", "version": 2}
"""

import json
import os
from enum import Enum
from pathlib import Path

from .errors import NotAStore, StoreDamaged, StoreNotFound, StoreUnreadable, UnknownFormat

MARKER_NAME = "kvboost-store.json"
LOCK_NAME = "kvboost-store.lock"
FORMAT_NAME = "kvboost-store"
FORMAT_VERSION = 2
"""1 knew neither positional records of documents nor their counts."""


class DirectoryState(Enum):
    """What is found where a store may be."""

    MISSING = "missing"
    EMPTY = "empty or left by a creation that was cut short"
    STORE = "store"


def inspect_directory(path: Path) -> DirectoryState:
    """What is at `path`; raises NotAStore if it is a file or a directory of something else."""
    if not os.path.lexists(path):
        return DirectoryState.MISSING
    try:
        names = set(os.listdir(path))
    except NotADirectoryError:
        raise NotAStore(path) from None
    except PermissionError:
        raise StoreUnreadable(path, "permission denied") from None
    if MARKER_NAME in names:
        return DirectoryState.STORE
    if names and LOCK_NAME not in names:
        raise NotAStore(path)
    return DirectoryState.EMPTY


def require_store(path: Path) -> None:
    """Raises StoreNotFound, NotAStore, UnknownFormat or StoreDamaged unless `path` holds a finished store."""
    if inspect_directory(path) is not DirectoryState.STORE:
        raise StoreNotFound(path)
    try:
        marker = json.loads((path / MARKER_NAME).read_bytes())
    except PermissionError:
        raise StoreUnreadable(path, "permission denied") from None
    except ValueError:
        raise StoreDamaged(path, f"its marker is not JSON: {MARKER_NAME}") from None
    if not isinstance(marker, dict) or marker.get("format") != FORMAT_NAME:
        raise StoreDamaged(path, f"its marker does not name the format {FORMAT_NAME}")
    if marker.get("version") != FORMAT_VERSION:
        raise UnknownFormat(f"store {path}", marker.get("version"))


def write_marker(path: Path) -> None:
    """Puts the marker in place whole and on disk, or not at all. The caller holds the writer lock."""
    temporary = path / f"{MARKER_NAME}.tmp"
    text = json.dumps({"format": FORMAT_NAME, "version": FORMAT_VERSION}) + "\n"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path / MARKER_NAME)
    sync_directory(path)


def sync_directory(path: Path) -> None:
    """Puts the names in a directory on disk."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
