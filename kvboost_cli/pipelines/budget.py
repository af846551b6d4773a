"""How much a store may take: the budget made and looked at, documents pinned."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

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


def make_budget(limit: int | Literal["none"] | None, keep_free_bytes: int | None, old: Budget) -> Budget:
    """The budget that a user asked for, in bytes: ``none`` takes the limit away, None leaves what was set before.

    A first limit comes with space that is kept free. Raises ``BudgetRefused``.
    """
    limit_bytes = old.limit_bytes if limit is None else None if limit == "none" else limit
    if keep_free_bytes is None and limit == "none":
        keep_free_bytes = 0
    elif keep_free_bytes is None:
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
