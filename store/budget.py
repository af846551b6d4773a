"""How much disk a store may take, and which documents it never drops anything of.

Whatever is in the store's directory counts: the data file with its free pages, and all files beside it. LMDB's file
does not shrink, so the limit is kept by how far it may grow; see `room`. Both facts are metadata of the store.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .datafile import DATA_NAME
from .errors import DamagedRecord, MissingDocument
from .names import BUDGET_KEY, EVICTED_KEY, PIN_PREFIX, document_key, pin_key
from .sealed import seal, unseal
from .transactions import ReadTransaction, WriteTransaction

LEAST_BYTES = 1_000_000
RESERVE_SHARE = 100
LEAST_RESERVE_BYTES = 1 << 18
_ROUND_BYTES = 1 << 16


@dataclass(frozen=True)
class Budget:
    """All files of the store together may take `limit_bytes` (None: no limit), and `keep_free_bytes` of its disk stay
    free. Raises ValueError for less than no store can do with.
    """

    limit_bytes: int | None = None
    keep_free_bytes: int = 0

    def __post_init__(self) -> None:
        if self.limit_bytes is not None and self.limit_bytes < LEAST_BYTES:
            raise ValueError(f"a budget has at least {LEAST_BYTES:,} bytes, not {self.limit_bytes:,}")
        if self.keep_free_bytes < 0:
            raise ValueError(f"what stays free is not negative: {self.keep_free_bytes:,}")

    @property
    def limits(self) -> bool:
        """Whether there is anything to keep to."""
        return self.limit_bytes is not None or self.keep_free_bytes > 0


@dataclass(frozen=True)
class Evicted:
    """What gave way to other records so far, and which part of the keys is looked at next."""

    num_records: int = 0
    num_bytes: int = 0
    next_range: int = 0


@dataclass(frozen=True)
class Bounds:
    """How far the data file may grow, in bytes: `write_bytes` for what is written, a reserve further while room is
    made, and the rest only if that is not enough.

    LMDB needs new pages to free others, and uses the freed ones two transactions later.
    """

    limit_bytes: int
    reserve_bytes: int

    @property
    def write_bytes(self) -> int:
        """For what is written."""
        return max(0, self.limit_bytes - 2 * self.reserve_bytes)

    @property
    def drop_bytes(self) -> int:
        """While room is made."""
        return max(0, self.limit_bytes - self.reserve_bytes)


def bounds_of(directory: Path, budget: Budget) -> Bounds:
    """By what the files beside the data file take now, and what the disk has; a share stays for them to grow."""
    data_bytes = (directory / DATA_NAME).stat().st_size
    limits = []
    if budget.limit_bytes is not None:
        limits.append(budget.limit_bytes - disk_bytes(directory) + data_bytes)
    if budget.keep_free_bytes:
        limits.append(data_bytes + max(0, shutil.disk_usage(directory).free - budget.keep_free_bytes))
    limit = max(0, min(limits)) // _ROUND_BYTES * _ROUND_BYTES
    reserve = max(LEAST_RESERVE_BYTES, limit // RESERVE_SHARE)
    return Bounds(limit, reserve)


def disk_bytes(directory: Path) -> int:
    """Sizes of all files in the store's directory, but for the copy that a compaction makes."""
    return sum(_file_bytes(path) for path in os.scandir(directory) if not path.name.startswith(f"{DATA_NAME}."))


def read_budget(txn: ReadTransaction) -> Budget:
    """The store's budget; without limits if none was set, or if that is damaged: the store stays usable.

    The check of a whole store tells such damage.
    """
    data = txn.get("meta", BUDGET_KEY)
    try:
        return Budget() if data is None else Budget(**unseal(data))
    except (DamagedRecord, TypeError, ValueError):
        return Budget()


def write_budget(txn: WriteTransaction, budget: Budget) -> None:
    """Sets the budget."""
    txn.put("meta", BUDGET_KEY, seal(asdict(budget)))


def read_evicted(txn: ReadTransaction) -> Evicted:
    """What was evicted so far; nothing if that is damaged: a lost statistic."""
    data = txn.get("meta", EVICTED_KEY)
    try:
        return Evicted() if data is None else Evicted(**unseal(data))
    except (DamagedRecord, TypeError):
        return Evicted()


def write_evicted(txn: WriteTransaction, evicted: Evicted) -> None:
    """Sets what was evicted."""
    txn.put("meta", EVICTED_KEY, seal(asdict(evicted)))


def pin(txn: WriteTransaction, names: Iterable[str]) -> None:
    """Pins documents; raises MissingDocument for one that is not stored."""
    for name in names:
        if txn.get("documents", document_key(name)) is None:
            raise MissingDocument(name)
        txn.put("meta", pin_key(name), seal(name))


def unpin(txn: WriteTransaction, names: Iterable[str]) -> int:
    """Unpins documents; returns how many were pinned."""
    return sum(txn.delete("meta", pin_key(name)) for name in names)


def pinned_names(txn: ReadTransaction) -> Iterator[str]:
    """The names of pinned documents, one at a time; a damaged pin is none."""
    for key, data in txn.scan("meta", PIN_PREFIX):
        if pin_fault(key, data) is None:
            yield str(unseal(data))


def pin_fault(key: bytes, data: memoryview) -> str | None:
    """What is wrong with a pin; None if nothing is."""
    try:
        name = unseal(data)
    except DamagedRecord as error:
        return error.reason
    return None if isinstance(name, str) and pin_key(name) == key else "it pins another document than its key says"


def _file_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # a side file of the search index that went meanwhile
        return 0
