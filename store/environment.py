"""The only module that knows lmdb: environments, transactions, and LMDB's errors in the store's terms.

- One environment per data file in a process, counted: LMDB's locks belong to the process, so a second
  opening of the same file would break them.
- One large sparse map, since resizing a map in use corrupts: it grows only while no transaction is open here.
- Not usable after a fork: the child would share the parent's reader slots.
- Sync mode: LMDB's default, two flushes to disk per commit. A document is one transaction and takes far
  longer to encode than to flush; in return, a document that is reported as stored survives a power cut.
- Data format of LMDB 0.9, so that `datafile` can check it and other tools can read it.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import lmdb

from .datafile import DATA_NAME, can_map, missing_bytes
from .errors import ForkedStore, SnapshotInUse, StoreDamaged, StoreFull, StoreReadonly, StoreUnreadable
from .transactions import DATABASES, ReadTransaction, WriteTransaction
from .translation import translate_lmdb_error

DEFAULT_MAP_BYTES = 1 << 40
LEAST_MAP_BYTES = 1 << 28
LIB_VERSION_0_9 = 0

T = TypeVar("T")
_Databases = dict[str, lmdb._Database]
_open_environments: dict[tuple[int, int], "Environment"] = {}
_open_lock = threading.Lock()


class Environment:
    """An open LMDB environment; made by `open_environment`, given back by `release`."""

    def __init__(self, directory: Path, *, writable: bool, create: bool, map_bytes: int) -> None:
        self.directory = directory
        self.writable = writable
        self.num_users = 0
        self._raw, self._databases = _open_raw(directory, writable, create, map_bytes)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._num_transactions = 0

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """A read transaction; keep it short, since pages freed meanwhile cannot be used again."""
        with _lmdb_errors_translated(self.directory), self._begin(write=False) as raw:
            transaction = ReadTransaction(raw, self._databases)
            try:
                yield transaction
            finally:
                transaction.end()

    def write(self, operation: Callable[[WriteTransaction], T]) -> T:
        """Runs `operation` in a write transaction: committed if it returns, undone if it raises.

        Waits for another process's write transaction. `operation` runs again if the map had to grow.
        """
        with _lmdb_errors_translated(self.directory):
            while True:
                try:
                    with self._begin(write=True) as raw:
                        result = operation(WriteTransaction(raw, self._databases))
                    self.lengthen_file()
                    return result
                except lmdb.MapFullError:
                    self._grow()

    def lengthen_file(self) -> None:
        """Makes the file as long as its last page says (see `datafile`): the next opening is quick."""
        if missing_bytes(self.directory):
            # Only under LMDB's write lock: another writer could be lengthening the file.
            with self._begin(write=True):
                missing = missing_bytes(self.directory)
                path = self.directory / DATA_NAME
                os.truncate(path, path.stat().st_size + missing)

    def release(self) -> None:
        """Gives one use back; the last one closes. Raises SnapshotInUse while a transaction is open."""
        if self._pid != os.getpid():
            return  # a child of the process that opened it has nothing of its own to give back
        with _open_lock:
            if self.num_users == 1:
                if self._num_transactions:
                    raise SnapshotInUse("a store was closed with snapshots open", self._num_transactions)
                self._raw.close()
                for file in [file for file, environment in _open_environments.items() if environment is self]:
                    del _open_environments[file]
            self.num_users -= 1

    def reopen_for_writing(self, map_bytes: int) -> None:
        """For a writer that joins readers in one process; raises SnapshotInUse while one reads."""
        _require_writable(self.directory)
        with self._lock:
            if self._num_transactions:
                raise SnapshotInUse("a store turns writable with snapshots open", self._num_transactions)
            self._raw.close()
            self._raw, self._databases = _open_raw(self.directory, True, False, map_bytes)
            self.writable = True

    def require_own_process(self) -> None:
        """Raises ForkedStore in a child of the process that opened it."""
        if self._pid != os.getpid():
            raise ForkedStore(self.directory)

    @contextmanager
    def _begin(self, *, write: bool) -> "Iterator[lmdb.Transaction[memoryview]]":
        self.require_own_process()
        with self._lock:
            self._num_transactions += 1
        try:
            with self._start(write) as raw:
                yield raw
        finally:
            with self._lock:
                self._num_transactions -= 1

    def _start(self, write: bool) -> "lmdb.Transaction[memoryview]":
        try:
            return self._raw.begin(write=write, buffers=True)
        except lmdb.MapResizedError:
            with self._lock:
                if self._num_transactions > 1:
                    raise
                self._raw.set_mapsize(0)  # 0: take over the size that another process gave it
            return self._raw.begin(write=write, buffers=True)

    def _grow(self) -> None:
        with self._lock:
            map_bytes = 2 * self._raw.info()["map_size"]
            if self._num_transactions:
                raise StoreFull(self.directory, "its map cannot grow while a snapshot is open")
            if not can_map(map_bytes):
                raise StoreFull(self.directory, f"the system refuses a map of {map_bytes} bytes")
            self._raw.set_mapsize(map_bytes)


def open_environment(
    directory: Path, *, writable: bool, create: bool = False, map_bytes: int = DEFAULT_MAP_BYTES
) -> Environment:
    """The environment in `directory` (resolved): the one already open in this process, or a new one."""
    data = directory / DATA_NAME
    with _open_lock, _lmdb_errors_translated(directory):
        environment = _open_environments.get(_file_id(data)) if data.exists() else None
        if environment is None:
            environment = Environment(directory, writable=writable, create=create, map_bytes=map_bytes)
            _open_environments[_file_id(data)] = environment
        environment.require_own_process()
        if writable and not environment.writable:
            environment.reopen_for_writing(map_bytes)
        environment.num_users += 1
    if writable:
        environment.lengthen_file()
    return environment


def _open_raw(
    directory: Path,
    writable: bool,
    create: bool,
    map_bytes: int,
) -> tuple[lmdb.Environment, _Databases]:
    if writable:
        _require_writable(directory)
    data = directory / DATA_NAME
    if not create or (data.exists() and data.stat().st_size):
        _require_sound_file(directory)
    raw = _map(directory, writable, map_bytes)
    try:
        raw.reader_check()  # frees the slots of readers that died
        return raw, _open_databases(directory, raw, create)
    except BaseException:
        raw.close()
        raise


def _require_writable(directory: Path) -> None:
    paths = [path for path in (directory, directory / DATA_NAME) if path.exists()]
    if not all(os.access(path, os.R_OK | os.W_OK) for path in paths):
        raise StoreReadonly(directory)


def _require_sound_file(directory: Path) -> None:
    data = directory / DATA_NAME
    if not data.exists():
        raise StoreDamaged(directory, f"it has no {DATA_NAME}")
    if not os.access(data, os.R_OK):
        raise StoreUnreadable(directory, f"{DATA_NAME} may not be read")
    if missing_bytes(directory):
        from lmdb.verify import verify  # only here: it is rarely needed

        problems = verify(str(data))  # type: ignore[no-untyped-call]
        # Asked again: a writer at work may have changed the file under the check, and then lengthened it.
        if problems and missing_bytes(directory):
            raise StoreDamaged(directory, f"{DATA_NAME} was cut short, {problems[0]}")


def _map(directory: Path, writable: bool, map_bytes: int) -> lmdb.Environment:
    """Maps as much of `map_bytes` as the system grants, halving down to LEAST_MAP_BYTES."""
    lock = directory / "lock.mdb"
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


def _open_databases(directory: Path, raw: lmdb.Environment, create: bool) -> _Databases:
    try:
        if raw.flags()["readonly"]:
            return {name: raw.open_db(name.encode(), create=False) for name in DATABASES}
        # The binding forgets handles that were opened by a transaction which only reads.
        with raw.begin(write=True) as transaction:
            return {name: raw.open_db(name.encode(), transaction, create=create) for name in DATABASES}
    except lmdb.NotFoundError:
        raise StoreDamaged(directory, "a database is missing in it") from None


def _file_id(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


@contextmanager
def _lmdb_errors_translated(directory: Path) -> Iterator[None]:
    try:
        yield
    except lmdb.Error as error:
        code = getattr(error, "code", 0)  # absent where the binding itself refuses
        raise translate_lmdb_error(directory, type(error).__name__, code, str(error)) from error
