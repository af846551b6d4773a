"""An open LMDB environment, its transactions, and who in a process shares it.

- One environment per data file in a process, counted: LMDB's locks belong to the process, so a second
  opening of the same file would break them.
- One large sparse map, since resizing a map in use corrupts: its size changes only while no transaction is open here.
  Of a store with a budget the map ends where the file may.
- Not usable after a fork: the child would share the parent's reader slots.
- A file that another process has compacted is taken over as soon as no transaction is open here (see `swapping`).
- Sync mode: LMDB's default, two flushes to disk per commit. A document is one transaction and takes far
  longer to encode than to flush; in return, a document that is reported as stored survives a power cut.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .datafile import DATA_NAME, can_map, missing_bytes, require_writable
from .engine import (
    MapFull,
    MapResized,
    RawTransaction,
    lmdb_errors_translated,
    open_raw,
    read_copy,
    verify_pages,
    write_copy,
)
from .errors import ForkedStore, SnapshotInUse, StoreFull
from .swapping import FileId, file_id, is_superseded
from .transactions import ReadTransaction, WriteTransaction

DEFAULT_MAP_BYTES = 1 << 40
LEAST_BOUND_BYTES = 1 << 16
"""0 would mean another size to LMDB."""

T = TypeVar("T")
_open_environments: dict[FileId, "Environment"] = {}
"""By the directory's device and inode, which stay as they are when its data file is compacted."""
_open_lock = threading.Lock()


class _Superseded(Exception):
    """The data file is no longer the store's: what was to be written goes into the new one."""


class LimitReached(Exception):
    """A write needs pages beyond where the file may grow to; nothing of it happened."""


class Environment:
    """An open LMDB environment; made by `open_environment`, given back by `release`."""

    def __init__(self, directory: Path, *, writable: bool, create: bool, map_bytes: int) -> None:
        self.directory = directory
        self.writable = writable
        self.num_users = 0
        self._raw, self._databases, self._files = open_raw(directory, writable, create, map_bytes)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._num_transactions = 0
        self._bound_bytes: int | None = None

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """A read transaction; keep it short, since pages freed meanwhile cannot be used again."""
        with lmdb_errors_translated(self.directory), self._begin(write=False) as raw:
            transaction = ReadTransaction(raw, self._databases)
            try:
                yield transaction
            finally:
                transaction.end()

    def write(self, operation: Callable[[WriteTransaction], T], max_bytes: int | None = None) -> T:
        """Runs `operation` in a write transaction: committed if it returns, undone if it raises.

        Waits for another process's write transaction. `operation` runs again if the map had to grow. Raises
        SnapshotInUse if another process has compacted the file that this one is reading. The file grows to `max_bytes`
        at most, or not at all if it has more; raises LimitReached if that is not enough.
        """
        with lmdb_errors_translated(self.directory):
            while True:
                try:
                    self._bound(max_bytes)
                    with self._begin(write=True) as raw:
                        self._require_current()
                        result = operation(WriteTransaction(raw, self._databases))
                    self.lengthen_file()
                    return result
                except MapFull:
                    if max_bytes is not None:
                        raise LimitReached from None
                    self._grow()
                except _Superseded:
                    continue

    def is_read_since(self, num_writes: int) -> bool:
        """Whether a transaction that reads, in any process, began more than so many writes ago.

        Pages that it may look at are free, and not used again before it ends.
        """
        with lmdb_errors_translated(self.directory):
            readers = [line.split()[-1] for line in self._raw.readers().splitlines()[1:]]
            latest = self._raw.info()["last_txnid"]
        return any(number != "-" and int(number) < latest - num_writes for number in readers)

    def rewrite(
        self, copy: Path, compare: Callable[[ReadTransaction, ReadTransaction], None], put_in_place: Callable[[], None]
    ) -> None:
        """Writes a compact `copy` of the data file to disk, has it compared with the file, and put in its place.

        No process writes meanwhile. The caller holds the writer lock.
        """
        with lmdb_errors_translated(self.directory), self._begin(write=True) as raw:
            write_copy(self._raw, copy)
            with read_copy(copy) as copied:
                compare(ReadTransaction(raw, self._databases), copied)
            put_in_place()

    def check_pages(self) -> list[str]:
        """What is wrong with the pages of the data file and the trees that they make; empty if nothing is.

        The read transaction keeps writers from using pages of this state again.
        """
        with self.read():
            return verify_pages(self.directory / DATA_NAME)

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
        require_writable(self.directory)
        with self._lock:
            if self._num_transactions:
                raise SnapshotInUse("a store turns writable with snapshots open", self._num_transactions)
            self._reopen(True, map_bytes)

    def require_own_process(self) -> None:
        """Raises ForkedStore in a child of the process that opened it."""
        if self._pid != os.getpid():
            raise ForkedStore(self.directory)

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[RawTransaction]:
        self.require_own_process()
        with self._lock:
            if not self._num_transactions and is_superseded(self.directory, self._files):
                self._reopen(self.writable, self._raw.info()["map_size"])
            self._num_transactions += 1
        try:
            with self._start(write) as raw:
                yield raw
        finally:
            with self._lock:
                self._num_transactions -= 1

    def _reopen(self, writable: bool, map_bytes: int) -> None:
        """Maps the store's file anew. The caller holds the lock, and no transaction is open."""
        self._raw.close()
        self._raw, self._databases, self._files = open_raw(self.directory, writable, False, map_bytes)
        self.writable, self._bound_bytes = writable, None

    def _require_current(self) -> None:
        """Asked under LMDB's write lock, which whoever puts a compacted file in place holds, too."""
        if is_superseded(self.directory, self._files):
            if self._num_transactions > 1:
                raise SnapshotInUse("the store was compacted with snapshots open here", self._num_transactions - 1)
            raise _Superseded

    def _start(self, write: bool) -> RawTransaction:
        try:
            return self._raw.begin(write=write, buffers=True)
        except MapResized:
            with self._lock:
                if self._num_transactions > 1:
                    raise
                self._raw.set_mapsize(0)  # 0: take over the size that another process gave it
                self._bound_bytes = None
            return self._raw.begin(write=write, buffers=True)

    def _bound(self, max_bytes: int | None) -> None:
        """Ends the map at `max_bytes`, or at the file's last page if that is behind it."""
        with self._lock:
            if max_bytes is None or max_bytes == self._bound_bytes:
                return
            if self._num_transactions:
                if self._bound_bytes is None:
                    raise StoreFull(self.directory, "its budget cannot be kept while a snapshot is open")
                return  # as it was bounded by the write before
            self._raw.set_mapsize(max(max_bytes, LEAST_BOUND_BYTES))
            self._bound_bytes = max_bytes

    def _grow(self) -> None:
        self._bound_bytes = None
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
    with _open_lock, lmdb_errors_translated(directory):
        environment = _open_environments.get(file_id(directory)) if data.exists() else None
        if environment is None:
            environment = Environment(directory, writable=writable, create=create, map_bytes=map_bytes)
            _open_environments[file_id(directory)] = environment
        environment.require_own_process()
        if writable and not environment.writable:
            environment.reopen_for_writing(map_bytes)
        environment.num_users += 1
    if writable:
        environment.lengthen_file()
    return environment
