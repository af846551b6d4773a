"""Whether counts, records and usage fit what documents name; and how often documents name a record.

Keys are spread evenly, so a range of their first bytes is a share of them: one look takes a range, and no more keys are
in memory than NUM_KEYS_PER_LOOK or so, however large the store is. Each look reads the documents' entries once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .chains import read_chains
from .errors import DamagedRecord
from .faults import Batch, Fault, FaultKind, Step
from .importance import ChunkAttention
from .records import DocumentEntry
from .snapshot import Snapshot
from .transactions import ReadTransaction
from .writing import CONTENT, POSITIONAL, ChunkUse, RecordKind, stored_header

NUM_KEYS_PER_LOOK = 200_000


class KeyRange(NamedTuple):
    """Keys from `start` on and before `end`; None is the end of all."""

    start: bytes
    end: bytes | None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.start <= key and (self.end is None or key < self.end)


EVERY_KEY = KeyRange(b"", None)


def key_ranges(num_keys: int, keys_per_look: int = NUM_KEYS_PER_LOOK) -> list[KeyRange]:
    """Ranges that hold every key once and about `keys_per_look` of `num_keys` each.

    >>> key_ranges(3, 2)
    [KeyRange(start=b'', end=b'\\x80'), KeyRange(start=b'\\x80', end=None)]
    """
    count = min(256, max(1, -(-num_keys // keys_per_look)))
    bounds = [bytes([256 * number // count]) for number in range(1, count)]
    return [KeyRange(start, end) for start, end in zip([b"", *bounds], [*bounds, None], strict=True)]


def named_keys(entry: DocumentEntry, kind: RecordKind) -> tuple[bytes, ...]:
    """The keys of that kind that a document names, once each and in order."""
    return tuple(dict.fromkeys(entry.chunk_keys if kind is CONTENT else entry.position_keys))


def count_named(txn: ReadTransaction, kind: RecordKind, wanted: Callable[[bytes], bool]) -> Counter[bytes]:
    """How many sound documents, and chains over several, name each key that is `wanted`."""
    counts: Counter[bytes] = Counter()
    for entry in Snapshot(txn).documents():
        counts.update(key for key in named_keys(entry, kind) if wanted(key))
    for chain in read_chains(txn) if kind is POSITIONAL else ():
        counts.update(key for key in chain.position_keys if wanted(key))
    return counts


def check_counts(txn: ReadTransaction, kind: RecordKind, keys: KeyRange) -> Batch:
    """Compares counts, records and, of content, usage with the documents' entries."""
    named = count_named(txn, kind, keys.__contains__)
    num_entries = 0
    faults: list[Fault] = []
    for key, data in scan_range(txn, kind.counts, keys):
        num_entries += 1
        faults.extend(_count_fault(txn, kind, key, data, named.get(key, 0)))
    uncounted = (key for key in named if txn.get(kind.counts, key) is None)
    faults.extend(Fault(FaultKind.COUNT, kind.counts, key, "it is not counted") for key in uncounted)
    faults.extend(_orphans(txn, kind, keys, named))
    faults.extend(_usage_faults(txn, kind, keys, named))
    num_absent = sum(stored_header(txn, kind, key) is None for key in named)
    return Batch(Step(kind.counts, num_entries, 0, num_absent), tuple(faults))


def scan_range(txn: ReadTransaction, database: str, keys: KeyRange) -> Iterator[tuple[bytes, memoryview]]:
    """Keys of a range and their values, in order."""
    for key, data in txn.scan(database, start=keys.start):
        if key not in keys:
            return
        yield key, data


def _count_fault(
    txn: ReadTransaction, kind: RecordKind, key: bytes, data: memoryview, num_named: int
) -> Iterator[Fault]:
    try:
        use = ChunkUse.from_bytes(data)
    except DamagedRecord as error:
        yield Fault(FaultKind.DAMAGED, kind.counts, key, error.reason)
        return
    header = stored_header(txn, kind, key)
    is_evicted = header is None and Snapshot(txn).is_evicted(key)
    if not num_named:
        yield Fault(FaultKind.ORPHAN, kind.counts, key, "it counts what no document names")
    elif use.num_documents != num_named:
        reason = f"it counts {use.num_documents} documents instead of {num_named}"
        yield Fault(FaultKind.COUNT, kind.counts, key, reason)
    elif header is not None and (use.num_tokens, use.num_bytes) != (header.num_tokens, header.total_bytes):
        yield Fault(FaultKind.COUNT, kind.counts, key, "it tells other sizes than the record has")
    elif is_evicted and use.num_bytes:
        yield Fault(FaultKind.COUNT, kind.counts, key, "it counts the bytes of an evicted record")


def _orphans(txn: ReadTransaction, kind: RecordKind, keys: KeyRange, named: Counter[bytes]) -> Iterator[Fault]:
    for key in txn.record_keys(kind.records, keys.start, keys.end):
        if key not in named and not is_preamble(txn, kind, key):
            yield Fault(FaultKind.ORPHAN, kind.records, key, "no document names it")


def is_preamble(txn: ReadTransaction, kind: RecordKind, key: bytes) -> bool:
    """Whether this is a preamble's record, which no document names: its keys are rotated. A damaged one may be one."""
    if kind is not POSITIONAL:
        return False
    header = stored_header(txn, kind, key)
    return header is None or header.rotated


def _usage_faults(txn: ReadTransaction, kind: RecordKind, keys: KeyRange, named: Counter[bytes]) -> Iterator[Fault]:
    """Usage of that kind; what is counted as neither kind goes with content."""
    for key, data in scan_range(txn, "usage", keys):
        if key in named:
            if ChunkAttention.from_bytes(data) is None:
                yield Fault(FaultKind.DAMAGED, "usage", key, "it does not match its checksum")
        elif kind is CONTENT and txn.get(POSITIONAL.counts, key) is None:
            yield Fault(FaultKind.ORPHAN, "usage", key, "it is of what no document names")
