"""Setting a store's budget and its pins."""

from collections.abc import Collection
from functools import partial

from . import budget as budgets
from .budget import Budget, Evicted, disk_bytes
from .chunks import ChunkStore
from .errors import StoreReadonly
from .room import drop_to_fit


def budget_of(store: ChunkStore) -> Budget:
    """The store's budget."""
    with store._environment.read() as txn:
        return budgets.read_budget(txn)


def set_budget(store: ChunkStore, budget: Budget) -> None:
    """Sets the budget, and drops records until those that stay fit it; the caller holds the writer lock.

    The file keeps its size until it is compacted: see `is_within_budget`. Raises StoreFull if too little may be
    dropped; the budget is set all the same.
    """
    if store.readonly:
        raise StoreReadonly(store.path)
    store._environment.write(partial(budgets.write_budget, budget=budget))
    if budget.limits:
        drop_to_fit(store._environment, budget, store.rank)


def evicted_of(store: ChunkStore) -> Evicted:
    """What gave way to other records so far."""
    with store._environment.read() as txn:
        return budgets.read_evicted(txn)


def is_within_budget(store: ChunkStore) -> bool:
    """Whether the store's files take no more than they may."""
    limit_bytes = budget_of(store).limit_bytes
    return limit_bytes is None or disk_bytes(store.path) <= limit_bytes


def pin_documents(store: ChunkStore, names: Collection[str]) -> None:
    """Keeps the records of documents from being dropped; raises MissingDocument, and pins none then."""
    store._write(partial(budgets.pin, names=names))


def unpin_documents(store: ChunkStore, names: Collection[str]) -> int:
    """Lets the records of documents be dropped again; returns how many documents were pinned."""
    return store._write(partial(budgets.unpin, names=names))


def pinned_documents(store: ChunkStore) -> list[str]:
    """The names of pinned documents, in order."""
    with store._environment.read() as txn:
        return list(budgets.pinned_names(txn))
