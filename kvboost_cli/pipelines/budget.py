"""How much a store may take: sizes as people write them, the budget set and looked at, documents pinned."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from store import (
    Budget,
    ChunkStore,
    Evicted,
    StoreStats,
    budget_of,
    evicted_of,
    pin_documents,
    pinned_documents,
    unpin_documents,
)

from .asked import find_stored_name
from .errors import BudgetRefused

KEEP_FREE_BYTES = 500_000_000
"""What of the disk is left free unless the user says otherwise."""

_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", 1)
    for suffix, base in (("", 1000), ("B", 1000), ("IB", 1024))
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(text: str) -> int:
    """Bytes, from a number and a unit.

    >>> parse_size("20GB"), parse_size("1.5 GiB"), parse_size("4096")
    (20000000000, 1610612736, 4096)

    Raises ``BudgetRefused``.
    """
    found = _SIZE.fullmatch(text)
    if found is None or found[2].upper() not in _UNITS:
        raise BudgetRefused(f"a size is a number and a unit, such as 20GB or 500MiB, not: {text!r}")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def make_budget(limit: str | None, keep_free: str | None, old: Budget) -> Budget:
    """The budget that a user asked for: ``none`` takes the limit away, ``None`` leaves what was set before.

    A first limit comes with space that is kept free. Raises ``BudgetRefused``.
    """
    limit_bytes = old.limit_bytes if limit is None else None if limit == "none" else parse_size(limit)
    if keep_free is not None:
        keep_free_bytes = parse_size(keep_free)
    elif limit == "none":
        keep_free_bytes = 0
    else:
        keep_free_bytes = old.keep_free_bytes if old.limits else KEEP_FREE_BYTES
    try:
        return Budget(limit_bytes, keep_free_bytes)
    except ValueError as error:
        raise BudgetRefused(str(error)) from None


@dataclass(frozen=True)
class BudgetReport:
    """A store's budget, what it takes, what gave way so far, and which documents are pinned."""

    budget: Budget
    stats: StoreStats
    evicted: Evicted
    pinned: tuple[str, ...]

    @property
    def is_within(self) -> bool:
        """Whether the store's files take no more than they may."""
        limit_bytes = self.budget.limit_bytes
        return limit_bytes is None or self.stats.disk_bytes <= limit_bytes


def look_at_budget(store: ChunkStore) -> BudgetReport:
    """The facts of this moment."""
    return BudgetReport(budget_of(store), store.stats(), evicted_of(store), tuple(pinned_documents(store)))


def pin(store: ChunkStore, names: Iterable[str]) -> tuple[str, ...]:
    """Pin documents: stored files, full names, or ends of exactly one stored name; returns their full names.

    Raises ``DocumentNotFound``, ``AmbiguousDocument``; none is pinned then.
    """
    resolved = _resolve(store, names)
    pin_documents(store, resolved)
    return resolved


def unpin(store: ChunkStore, names: Iterable[str]) -> tuple[str, ...]:
    """Unpin documents; returns the full names of those that were pinned."""
    pinned = pinned_documents(store)
    resolved = [name for name in _resolve(store, names) if name in pinned]
    unpin_documents(store, resolved)
    return tuple(resolved)


def _resolve(store: ChunkStore, names: Iterable[str]) -> tuple[str, ...]:
    with store.snapshot() as snapshot:
        paths = {name: os.path.abspath(os.path.expanduser(name)) for name in names}
        found = (
            path if snapshot.document(path) is not None else find_stored_name(snapshot, name)
            for name, path in paths.items()
        )
        return tuple(dict.fromkeys(found))
