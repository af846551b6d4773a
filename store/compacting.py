"""Compaction: a copy of the data file without free pages is checked and takes its place.

LMDB never gives pages back to the disk, and what was deleted stays readable in its free pages until they are used
again. After a compaction the store's files hold what is stored now and nothing else.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from .chunks import ChunkStore
from .datafile import DATA_NAME
from .errors import StoreDamaged, StoreFull, StoreReadonly
from .swapping import COPY_NAME, put_copy_in_place, remove_leftovers
from .transactions import DATABASES, ReadTransaction
from .translation import os_errors_translated

MARGIN_BYTES = 1 << 20
_REPORT_BYTES = 1 << 24

OnBytes = Callable[[int], None]
"""Called with the bytes that were compared since the last call."""


@dataclass(frozen=True)
class Compacted:
    """Sizes of the data file."""

    bytes_before: int
    bytes_after: int


def compact_store(store: ChunkStore, on_bytes: OnBytes | None = None) -> Compacted:
    """Replaces the data file by a copy without free pages; the caller holds the writer lock.

    Every value of the copy is compared with the file's, and the copy is on disk, before it takes the file's place.
    Processes that read go on with the old file; their next transaction, and every write, finds the new one. Writers
    wait meanwhile. Raises StoreFull if the disk has no room for the copy, StoreReadonly, StoreDamaged,
    SnapshotInUse; the store is as it was then.
    """
    if store.readonly:
        raise StoreReadonly(store.path)
    directory = store.path
    bytes_before = _data_bytes(directory)
    require_room(directory, store.stats().live_bytes)
    with os_errors_translated(directory):
        try:
            store._environment.rewrite(
                directory / COPY_NAME,
                lambda old, new: _require_equal(directory, old, new, on_bytes or _ignore),
                lambda: put_copy_in_place(directory),
            )
        except BaseException:
            remove_leftovers(directory)
            raise
    store.stats()  # opens the new file, and makes its lock.mdb
    return Compacted(bytes_before, _data_bytes(directory))


def require_room(directory: Path, num_bytes: int) -> None:
    """Raises StoreFull unless the disk has that many bytes, and a margin, free for this user."""
    needed = num_bytes + MARGIN_BYTES
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StoreFull(directory, f"a compacted copy needs {needed:,} bytes, and free on its disk are {free:,}")


def _require_equal(directory: Path, old: ReadTransaction, new: ReadTransaction, on_bytes: OnBytes) -> None:
    """Raises StoreDamaged at the first difference of two states."""
    num_bytes = 0
    for database in DATABASES:
        for old_item, new_item in zip_longest(old.scan(database), new.scan(database)):
            if old_item is None or new_item is None or _copied(old_item) != _copied(new_item):
                raise StoreDamaged(directory, f"its compacted copy has other {database}")
            num_bytes += len(old_item[1])
            if num_bytes >= _REPORT_BYTES:
                on_bytes(num_bytes)
                num_bytes = 0
    on_bytes(num_bytes)


def _copied(item: tuple[bytes, memoryview]) -> tuple[bytes, bytes]:
    """Bytes compare many times faster than views do."""
    return item[0], bytes(item[1])


def _data_bytes(directory: Path) -> int:
    return os.stat(directory / DATA_NAME).st_size


def _ignore(_: int) -> None:
    pass
