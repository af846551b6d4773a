"""The only module that imports lmdb: opens, copies and checks its files, and tells its errors in the store's terms.

Data format of LMDB 0.9, so that `datafile` can check it and other tools can read it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import lmdb

from .datafile import DATA_NAME, require_sound_file, require_writable
from .errors import StoreDamaged
from .swapping import LMDB_LOCK_NAME, OpenedFiles, settled
from .transactions import DATABASES, ReadTransaction
from .translation import translate_lmdb_error

LEAST_MAP_BYTES = 1 << 28
LIB_VERSION_0_9 = 0

RawEnvironment = lmdb.Environment
RawTransaction: TypeAlias = "lmdb.Transaction[memoryview]"
Databases = dict[str, lmdb._Database]
MapFull = lmdb.MapFullError
MapResized = lmdb.MapResizedError


def open_raw(
    directory: Path,
    writable: bool,
    create: bool,
    map_bytes: int,
) -> tuple[RawEnvironment, Databases, OpenedFiles]:
    """The environment in `directory` and its named databases, with what files they are; all made if `create`.

    The databases are opened in a write transaction, and so outside of `settled`: a compaction that has LMDB's write
    lock waits for those who are inside. A file that is superseded meanwhile is left at the next transaction.
    """
    if writable:
        require_writable(directory)
    data = directory / DATA_NAME
    with settled(directory):
        if not create or (data.exists() and data.stat().st_size):
            require_sound_file(directory, verify_pages)
        raw, files = _map(directory, writable, map_bytes), OpenedFiles.of(directory)
    try:
        raw.reader_check()  # frees the slots of readers that died
        return raw, _open_databases(directory, raw, create), files
    except BaseException:
        raw.close()
        raise


def write_copy(raw: RawEnvironment, path: Path) -> None:
    """A copy of the last committed state without free pages, on disk when this returns; only its owner may read it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        raw.copyfd(file.fileno(), compact=True)
        os.fsync(file.fileno())


@contextmanager
def read_copy(path: Path) -> Iterator[ReadTransaction]:
    """Reads a copy that no other process knows of."""
    raw = lmdb.open(
        str(path), subdir=False, readonly=True, lock=False, create=False, max_dbs=len(DATABASES),
        lib_version=LIB_VERSION_0_9,
    )  # fmt: skip
    with raw, raw.begin(buffers=True) as copied:
        databases = {name: raw.open_db(name.encode(), copied, create=False) for name in DATABASES}
        yield ReadTransaction(copied, databases)


def verify_pages(data: Path) -> list[str]:
    """What is wrong with a data file's pages and the trees that they make, found with plain reads; empty if nothing."""
    from lmdb import verify  # only here: it is rarely needed

    try:
        return list(verify.verify(str(data)))  # type: ignore[no-untyped-call]
    except verify.VerifyError as error:
        return [str(error)]


def _map(directory: Path, writable: bool, map_bytes: int) -> lmdb.Environment:
    """Maps as much of `map_bytes` as the system grants, halving down to LEAST_MAP_BYTES."""
    lock = directory / LMDB_LOCK_NAME
    lockable = writable or os.access(lock if lock.exists() else directory, os.R_OK | os.W_OK)
    while True:
        try:
            return lmdb.open(
                str(directory), map_size=map_bytes, readonly=not writable, lock=lockable, create=False,
                mode=0o700, max_dbs=len(DATABASES), lib_version=LIB_VERSION_0_9,
            )  # fmt: skip
        except lmdb.MemoryError:
            if map_bytes <= LEAST_MAP_BYTES:
                raise
            map_bytes //= 2


def _open_databases(directory: Path, raw: lmdb.Environment, create: bool) -> Databases:
    try:
        if raw.flags()["readonly"]:
            return {name: raw.open_db(name.encode(), create=False) for name in DATABASES}
        # The binding forgets handles that were opened by a transaction which only reads.
        with raw.begin(write=True) as transaction:
            return {name: raw.open_db(name.encode(), transaction, create=create) for name in DATABASES}
    except lmdb.NotFoundError:
        raise StoreDamaged(directory, "a database is missing in it") from None


@contextmanager
def lmdb_errors_translated(directory: Path) -> Iterator[None]:
    """Turns LMDB's errors inside the block into the store's."""
    try:
        yield
    except lmdb.Error as error:
        code = getattr(error, "code", 0)  # absent where the binding itself refuses
        raise translate_lmdb_error(directory, type(error).__name__, code, str(error)) from error
