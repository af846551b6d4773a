"""Taking documents and what no document names out of a store, in transactions of bounded size.

The caller holds the writer lock. What is interrupted is done in part, and done whole when it is run again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from .chains import read_chains
from .chunks import ChunkStore
from .counting import KeyRange, key_ranges, named_keys
from .snapshot import Snapshot
from .transactions import ReadTransaction, WriteTransaction
from .upkeep import find_orphans, repair_faults
from .writing import CONTENT, POSITIONAL, ChunkUse, RecordKind, delete_document, stored_header, write_document

NUM_DOCUMENTS_PER_WRITE = 64


@dataclass(frozen=True)
class Extent:
    """So many records, content and positional, with so many bytes."""

    num_records: int = 0
    num_bytes: int = 0

    def __add__(self, other: "Extent") -> "Extent":
        return Extent(self.num_records + other.num_records, self.num_bytes + other.num_bytes)


def extent_of(store: ChunkStore, names: Collection[str]) -> Extent:
    """The records that these documents name and no others do."""
    extent = Extent()
    for kind in (CONTENT, POSITIONAL):
        with store._environment.read() as txn:
            for keys in key_ranges(txn.num_entries(kind.counts)):
                extent += _extent_in_range(txn, kind, names, keys)
    return extent


def remove_documents(store: ChunkStore, names: Iterable[str]) -> None:
    """Removes documents and the records that no other names."""
    _write_each(store, names, lambda txn, name: delete_document(txn, name))


def shed_records(store: ChunkStore, names: Iterable[str]) -> None:
    """Lets documents forget their records, which are dropped if no other names them; the documents stay."""
    _write_each(store, names, _shed)


def num_counted(store: ChunkStore) -> int:
    """How many records documents are counted for; `prune_orphans` looks at each."""
    with store._environment.read() as txn:
        return sum(txn.num_entries(kind.counts) for kind in (CONTENT, POSITIONAL))


def prune_orphans(
    store: ChunkStore, *, dry_run: bool = False, on_look: Callable[[int], None] = lambda _: None
) -> tuple[Extent, int]:
    """Drops records that no document names, and counts and usage of such; how much, and how many usage entries.

    Preambles stay. With `dry_run` they are only counted. `on_look` is told how many more of `num_counted` were seen.
    """
    extent, num_usage = Extent(), 0
    for batch in find_orphans(store):
        extent += _extent_of_orphans(store, [(fault.database, fault.key) for fault in batch.faults])
        num_usage += sum(fault.database == "usage" for fault in batch.faults)
        if batch.faults and not dry_run:
            store._write(partial(repair_faults, faults=batch.faults))
        on_look(batch.step.num_entries)
    return extent, num_usage


def _extent_in_range(txn: ReadTransaction, kind: RecordKind, names: Collection[str], keys: KeyRange) -> Extent:
    reader = Snapshot(txn)
    entries = (entry for entry in map(reader.document, names) if entry is not None)
    counts = Counter(key for entry in entries for key in named_keys(entry, kind) if key in keys)
    for chain in read_chains(txn) if kind is POSITIONAL else ():
        counts.update(key for key in chain.cut_keys(names) if key in keys)
    extent = Extent()
    for key, num_documents in counts.items():
        data = txn.get(kind.counts, key)
        use = None if data is None else ChunkUse.from_bytes(data)
        if use is not None and use.num_bytes and use.num_documents <= num_documents:
            extent += Extent(1, use.num_bytes)
    return extent


def _extent_of_orphans(store: ChunkStore, places: Iterable[tuple[str, bytes]]) -> Extent:
    kinds = {kind.records: kind for kind in (CONTENT, POSITIONAL)}
    extent = Extent()
    with store._environment.read() as txn:
        for database, key in places:
            if database in kinds:
                header = stored_header(txn, kinds[database], key)
                extent += Extent(1, 0 if header is None else header.total_bytes)
    return extent


def _shed(txn: WriteTransaction, name: str) -> None:
    entry = Snapshot(txn).document(name)
    if entry is not None:
        write_document(txn, replace(entry, chunk_keys=(), position_keys=()), ())


def _write_each(store: ChunkStore, names: Iterable[str], write: Callable[[WriteTransaction, str], object]) -> None:
    """Calls `write` with each name, several in one transaction."""
    rest = iter(names)
    while some := list(islice(rest, NUM_DOCUMENTS_PER_WRITE)):
        store._write(partial(_write_some, names=some, write=write))


def _write_some(txn: WriteTransaction, names: Iterable[str], write: Callable[[WriteTransaction, str], object]) -> None:
    for name in names:
        write(txn, name)
