"""Keeping a store within its budget: a write that does not fit makes room first.

LMDB itself keeps the limit: the map of a process that writes ends where the data file may. A write that needs pages
beyond it fails as a whole; records are dropped, and it runs again. LMDB uses freed pages in the second transaction
after the one that freed them, and not while a reader still sees them.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from .budget import Bounds, Budget, bounds_of, read_budget, read_evicted, write_evicted
from .environment import Environment, LimitReached
from .errors import StoreFull
from .eviction import Rank, Victims, find_victims
from .transactions import WriteTransaction
from .writing import RecordKind, evict_record

T = TypeVar("T")
Records = Sequence[tuple[RecordKind, bytes]]
NUM_RECORDS_PER_WRITE = 256
BATCH_SHARE = 1 << 16
"""A record that is dropped takes about four pages of 4 KB for as long as that: a quarter of the reserve at a time."""

AMPLE_SHARE = 0.75
"""Of what may be used: below that, pages are not short, but in use by readers or scattered."""

WAITS_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True)
class Wanted:
    """What a write needs: about so many bytes, and records under the `kept` keys, which are not dropped for it."""

    num_bytes: int = 0
    kept: Collection[bytes] = ()


ANYTHING = Wanted()


def write_within_budget(
    environment: Environment, operation: Callable[[WriteTransaction], T], wanted: Wanted, rank: Rank
) -> T:
    """As `Environment.write`, within the store's budget; other records are dropped if it has to be.

    Raises StoreFull if what may be dropped is not enough; nothing is written then.
    """
    with environment.read() as txn:
        budget = read_budget(txn)
    if not budget.limits:
        return environment.write(operation)
    waits = iter(WAITS_S)
    while True:
        try:
            return environment.write(operation, bounds_of(environment.directory, budget).write_bytes)
        except LimitReached:
            _make_room(environment, budget, wanted, rank, waits)


def drop_to_fit(environment: Environment, budget: Budget, rank: Rank) -> None:
    """Drops records until what is live fits the budget; the file keeps its size until it is compacted."""
    while True:
        excess = _live_bytes(environment) - bounds_of(environment.directory, budget).write_bytes
        if excess <= 0:
            return
        if not drop_records(environment, excess, rank):
            raise StoreFull(environment.directory, _told(budget, "and nothing that is left may be dropped"))


def drop_records(environment: Environment, num_bytes: int, rank: Rank) -> int:
    """Drops records of so many bytes, or all that may be dropped; returns their bytes. The file may grow by that."""
    num_dropped = 0
    while num_dropped < num_bytes:
        victims = _choose(environment, Wanted(num_bytes - num_dropped), rank)
        if not victims.records:
            break
        _drop(environment, victims, None)
        num_dropped += victims.num_bytes
    return num_dropped


def _make_room(environment: Environment, budget: Budget, wanted: Wanted, rank: Rank, waits: Iterator[float]) -> None:
    """Drops records, or, if enough pages are free by now, waits a while until they can be used."""
    bounds = bounds_of(environment.directory, budget)
    if _live_bytes(environment) + wanted.num_bytes <= AMPLE_SHARE * bounds.write_bytes:
        wait_s = next(waits, None)
        if wait_s is not None:
            time.sleep(wait_s)
            _drop(environment, Victims(next_range=_next_range(environment)), bounds)
            return
        if environment.is_read_since(len(WAITS_S) // 2):  # to drop more would not help
            raise StoreFull(environment.directory, _told(budget, "and its free pages are still read"))
    victims = _choose(environment, wanted, rank)
    if not victims.records:
        raise StoreFull(environment.directory, _told(budget, "and nothing that is left may be dropped"))
    _drop(environment, victims, bounds)


def _choose(environment: Environment, wanted: Wanted, rank: Rank) -> Victims:
    with environment.read() as txn:
        return find_victims(txn, wanted.num_bytes, wanted.kept, rank, read_evicted(txn).next_range)


def _drop(environment: Environment, victims: Victims, bounds: Bounds | None) -> None:
    """Drops records some at a time, so that the pages this takes fit the reserve; `bounds` None: whatever it takes.

    The last transaction has no record: by the next one, all that was freed can be used.
    """
    size = NUM_RECORDS_PER_WRITE if bounds is None else min(NUM_RECORDS_PER_WRITE, bounds.reserve_bytes // BATCH_SHARE)
    batches = [victims.records[start : start + size] for start in range(0, len(victims.records), size)]
    for batch in [*batches, []]:
        drop = partial(_drop_some, next_range=victims.next_range)
        if bounds is None:
            environment.write(partial(drop, records=batch))
        else:
            _drop_within(environment, bounds, batch, drop)


def _drop_within(environment: Environment, bounds: Bounds, batch: Records, drop: Callable[..., None]) -> None:
    """Drops a batch; one that takes more pages than there are goes record by record, up to the limit itself."""
    try:
        environment.write(partial(drop, records=batch), bounds.drop_bytes)
        return
    except LimitReached:
        pass
    try:
        for one in [[record] for record in batch] or [[]]:
            environment.write(partial(drop, records=one), bounds.limit_bytes)
    except LimitReached:
        reason = "its file is as large as the budget allows, and has no page left to drop records with"
        raise StoreFull(environment.directory, reason) from None


def _drop_some(txn: WriteTransaction, records: Records, next_range: int) -> None:
    sizes = [evict_record(txn, kind, key) for kind, key in records]
    evicted = read_evicted(txn)
    write_evicted(
        txn,
        replace(
            evicted,
            num_records=evicted.num_records + sum(size > 0 for size in sizes),
            num_bytes=evicted.num_bytes + sum(sizes),
            next_range=next_range,
        ),
    )


def _next_range(environment: Environment) -> int:
    with environment.read() as txn:
        return read_evicted(txn).next_range


def _live_bytes(environment: Environment) -> int:
    with environment.read() as txn:
        return txn.live_bytes()


def _told(budget: Budget, reason: str) -> str:
    limits = [] if budget.limit_bytes is None else [f"its budget is {budget.limit_bytes:,} bytes"]
    if budget.keep_free_bytes:
        limits.append(f"{budget.keep_free_bytes:,} bytes of its disk are kept free")
    return f"{', '.join(limits)}, {reason}"
