"""Checking a whole store, and dropping what is bad in it.

Both go through the store look by look, each in a transaction of its own, so that memory and the file stay small and
others can write in between. What `repair_store` drops is made anew when it is needed.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from .checking import check_asks, check_documents, check_meta, check_records
from .chunks import ChunkStore
from .counting import check_counts, count_named, is_preamble, key_ranges
from .environment import Environment
from .errors import DamagedRecord
from .faults import Batch, Fault, FaultKind, Rules, Step
from .keys import KEY_BYTES
from .snapshot import Snapshot
from .transactions import ReadTransaction, WriteTransaction
from .writing import CONTENT, POSITIONAL, ChunkUse, RecordKind, stored_header

_KIND_OF = {name: kind for kind in (CONTENT, POSITIONAL) for name in kind}


def check_store(store: ChunkStore, rules: Rules) -> Iterator[Fault | Step]:
    """Every fault of the store, and between them how far the check is. Reads all; writes nothing.

    With a fault in LMDB's pages nothing else is looked at.
    """
    pages = list(_page_faults(store._environment))
    yield from pages
    if not pages:
        for batch in _looks(store._environment, rules):
            yield from batch.faults
            yield batch.step


def repair_store(store: ChunkStore, rules: Rules) -> Iterator[Fault | Step]:
    """As `check_store`, and repairs each fault that it tells, except those of LMDB's pages.

    Values that are damaged are dropped, counts are made right, orphans are dropped. The caller holds the writer lock.
    """
    pages = list(_page_faults(store._environment))
    yield from pages
    if not pages:
        for batch in _looks(store._environment, rules):
            if batch.faults:
                store._write(partial(repair_faults, faults=batch.faults))
            yield from batch.faults
            yield batch.step


def find_orphans(store: ChunkStore) -> Iterator[Batch]:
    """Looks at what no document names: records, counts, usage; only orphans are among the faults."""
    for batch in _count_looks(store._environment):
        orphans = tuple(fault for fault in batch.faults if fault.kind is FaultKind.ORPHAN)
        yield Batch(batch.step, orphans)


def repair_faults(txn: WriteTransaction, faults: Iterable[Fault]) -> None:
    """Drops what is bad and counts anew what is counted wrong; what documents name is looked up here once more."""
    recounted: dict[RecordKind, set[bytes]] = {CONTENT: set(), POSITIONAL: set()}
    for fault in faults:
        kind = _KIND_OF.get(fault.database)
        if fault.database == "usage":
            _drop_usage(txn, fault)
        elif kind is None or len(fault.key) != KEY_BYTES:
            txn.delete(fault.database, fault.key)
        elif fault.kind is FaultKind.DAMAGED and fault.database == kind.records:
            txn.delete_prefix(kind.records, fault.key)
        else:
            recounted[kind].add(fault.key)
    for kind, keys in recounted.items():
        _recount(txn, kind, keys)


def _recount(txn: WriteTransaction, kind: RecordKind, keys: set[bytes]) -> None:
    """Counts the documents that name each key; what none names is dropped with its record."""
    named = count_named(txn, kind, keys.__contains__) if keys else {}
    for key in keys:
        if named.get(key):
            txn.put(kind.counts, key, _use(txn, kind, key)._replace(num_documents=named[key]).to_bytes())
            continue
        txn.delete(kind.counts, key)
        if not is_preamble(txn, kind, key):
            txn.delete_prefix(kind.records, key)
        txn.delete("usage", key)


def _drop_usage(txn: WriteTransaction, fault: Fault) -> None:
    """Unless it is of a record that was counted meanwhile."""
    counted = any(txn.get(kind.counts, fault.key) is not None for kind in (CONTENT, POSITIONAL))
    if fault.kind is FaultKind.DAMAGED or not counted:
        txn.delete("usage", fault.key)


def _use(txn: ReadTransaction, kind: RecordKind, key: bytes) -> ChunkUse:
    """Sizes by the record's header; without it as they were counted, zero if that cannot be read.

    One that was evicted has no bytes.
    """
    header = stored_header(txn, kind, key)
    if header is not None:
        return ChunkUse(0, header.num_tokens, header.total_bytes)
    data = txn.get(kind.counts, key)
    try:
        use = ChunkUse(0, 0, 0) if data is None else ChunkUse.from_bytes(data)
    except DamagedRecord:
        use = ChunkUse(0, 0, 0)
    return use._replace(num_bytes=0) if Snapshot(txn).is_evicted(key) else use


def _page_faults(environment: Environment) -> Iterator[Fault]:
    for problem in environment.check_pages():
        yield Fault(FaultKind.PAGE, "data.mdb", b"", problem)


def _looks(environment: Environment, rules: Rules) -> Iterator[Batch]:
    """Looks through everything, in an order in which repairing what one found is seen by the next."""
    for kind in (CONTENT, POSITIONAL):
        start: bytes | None = b""
        while start is not None:
            with environment.read() as txn:
                batch, start = check_records(txn, kind.records, start, rules)
            yield batch
    for check in (check_documents, check_asks, partial(check_meta, rules=rules)):
        with environment.read() as txn:
            batch = check(txn)
        yield batch
    yield from _count_looks(environment)


def _count_looks(environment: Environment) -> Iterator[Batch]:
    for kind in (CONTENT, POSITIONAL):
        with environment.read() as txn:
            ranges = key_ranges(txn.num_entries(kind.counts))
        for keys in ranges:
            with environment.read() as txn:
                batch = check_counts(txn, kind, keys)
            yield batch
