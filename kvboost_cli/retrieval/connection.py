"""One SQLite connection to an index file: opened, checked, and its errors told as this package's own."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .errors import SearchIndexBusy, SearchIndexDamaged, SearchIndexError, SearchIndexMissing

SCHEMA_VERSION = 1
# Marks the file as ours: "kvbs" in ASCII.
APPLICATION_ID = 0x6B766273
_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE documents (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, content_hash TEXT NOT NULL);
CREATE VIRTUAL TABLE chunks USING fts5 (body, tokenize = 'porter unicode61');
"""
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# The statements are fixed and the version is checked: SQLITE_ERROR means that the tables are not what they were.
_DAMAGED = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
    }
)


def connect(path: Path, *, readonly: bool, wait_s: float) -> sqlite3.Connection:
    """Open the index, making a new one (mode 0600) unless `readonly`. Raises SearchIndexError."""
    if readonly and not path.exists():
        raise SearchIndexMissing("no search index", str(path))
    with translated(path):
        if not path.exists():
            _create(path)
        database = sqlite3.connect(_uri(path, readonly), uri=True, timeout=wait_s, isolation_level=None)
        try:
            _check_version(database, path)
            database.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            database.close()
            raise
    return database


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system raise inside the block into SearchIndexError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _translate(error, str(path)) from error
    except UnicodeDecodeError as error:
        raise SearchIndexDamaged("a damaged search index", str(path)) from error
    except OSError as error:
        raise SearchIndexError(f"the search index cannot be opened, {error.strerror}", str(path)) from error


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does as a whole, or nothing of it."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # SQLite itself may have rolled back, as on a full disk
            database.execute("ROLLBACK")
        raise


def remove_index(path: str | Path) -> None:
    """Delete an index with its side files, so that it can be rebuilt; no process may have it open."""
    for suffix in ("-wal", "-shm", ""):
        Path(f"{os.fspath(path)}{suffix}").unlink(missing_ok=True)


def _uri(path: Path, readonly: bool) -> str:
    if not readonly:
        return path.absolute().as_uri() + "?mode=rw"
    # Without write access to the folder SQLite cannot make the files it shares with writers; nor is there one.
    is_fixed = not os.access(path.parent, os.W_OK) and not os.path.exists(f"{path}-wal")
    return path.absolute().as_uri() + ("?immutable=1" if is_fixed else "?mode=ro")


def _create(path: Path) -> None:
    """Make an index beside `path` and put it there whole: no other process ever sees a part of it."""
    handle, made = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        with closing(sqlite3.connect(made, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_SCHEMA)
        _put_in_place(made, path)
    finally:
        Path(made).unlink(missing_ok=True)


def _put_in_place(made: str, path: Path) -> None:
    try:
        os.link(made, path)
    except FileExistsError:
        return  # another process was faster, with the same
    except OSError:  # a file system without hard links; there the last of two at once wins
        os.rename(made, path)


def _check_version(database: sqlite3.Connection, path: Path) -> None:
    found = (_pragma(database, "application_id"), _pragma(database, "user_version"))
    if found != (APPLICATION_ID, SCHEMA_VERSION):
        raise SearchIndexDamaged(f"not a search index of version {SCHEMA_VERSION}", str(path))


def _pragma(database: sqlite3.Connection, name: str) -> int:
    (value,) = database.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _translate(error: sqlite3.DatabaseError, path: str) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # a programmer's error, such as the use of a closed index
        return error
    primary = code & 0xFF  # the upper bits hold details
    if primary in _BUSY:
        return SearchIndexBusy("the search index is locked by another process", path)
    if primary in _DAMAGED and "no such module" not in str(error):
        return SearchIndexDamaged("a damaged search index", path)
    return SearchIndexError(f"the search index failed, {error}", path)
