"""Checks on single values: records, documents' entries, asks, metadata. One look goes through a part of a database.

Whether counts and documents fit each other is checked in `counting`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import groupby

from xxhash import xxh3_64_intdigest

from .asks import AskTotals
from .budget import Budget, Evicted, pin_fault
from .chains import ChainEntry
from .errors import DamagedRecord, UnknownFormat
from .faults import Batch, Fault, FaultKind, Rules, Step
from .header import ChunkHeader
from .keys import KEY_BYTES, content_key
from .names import (
    ASK_TOTALS_KEY,
    BUDGET_KEY,
    CHAIN_PREFIX,
    EVICTED_KEY,
    IDENTITY_KEY,
    PIN_PREFIX,
    document_key,
    meta_name,
)
from .records import AskEntry, DocumentEntry, StoreIdentity
from .sealed import unseal
from .snapshot import layer_key
from .transactions import ReadTransaction

LOOK_BYTES = 1 << 26
"""A look ends after so many bytes of records: a long transaction would keep freed pages from being used again."""

_ASK_KEY_BYTES = 8
_FIELDS = {
    key: asdict(value).keys()
    for key, value in ((ASK_TOTALS_KEY, AskTotals()), (BUDGET_KEY, Budget()), (EVICTED_KEY, Evicted()))
}
Parts = list[tuple[bytes, memoryview]]
"""Keys and values of one record, header first."""
_FaultOf = Callable[[bytes, memoryview], str | None]


def check_records(txn: ReadTransaction, database: str, start: bytes, rules: Rules) -> tuple[Batch, bytes | None]:
    """Checks the records of `chunks` or `positions` from `start` on; with the key to go on from, None at the end."""
    faults: list[Fault] = []
    num_records = num_bytes = 0
    for key, parts in _records(txn.scan(database, start=start)):
        if num_bytes >= LOOK_BYTES:
            return Batch(Step(database, num_records, num_bytes), tuple(faults)), key
        num_records += 1
        num_bytes += sum(len(value) for _, value in parts)
        reason = _record_fault(database, key, parts, rules)
        if reason is not None:
            faults.append(Fault(FaultKind.DAMAGED, database, key, reason))
    return Batch(Step(database, num_records, num_bytes), tuple(faults)), None


def check_documents(txn: ReadTransaction) -> Batch:
    """Checks every document's entry."""
    return _check_values("documents", txn.scan("documents"), _document_fault)


def check_asks(txn: ReadTransaction) -> Batch:
    """Checks every kept ask."""
    return _check_values("asks", txn.scan("asks"), _ask_fault)


def check_meta(txn: ReadTransaction, rules: Rules) -> Batch:
    """Checks the store's own metadata, and by `rules` that of others."""
    return _check_values("meta", txn.scan("meta"), lambda key, data: _meta_fault(key, data, rules))


def _records(items: Iterable[tuple[bytes, memoryview]]) -> Iterator[tuple[bytes, Parts]]:
    for key, group in groupby(items, key=lambda item: item[0][:KEY_BYTES]):
        yield key, list(group)


def _record_fault(database: str, key: bytes, parts: Parts, rules: Rules) -> str | None:
    if len(key) != KEY_BYTES:
        return f"its key has {len(key)} bytes"
    if parts[0][0] != key:
        return "it has no header"
    try:
        header = ChunkHeader.unpack(parts[0][1])
    except (DamagedRecord, UnknownFormat) as error:
        return str(error)
    if header.positional != (database == "positions"):
        return "it is a record of the other kind"
    if not header.positional and content_key(header.fingerprint, header.recipe, header.token_ids) != key:
        return "its key is not that of its tokens"
    return _layers_fault(key, header, parts[1:], rules)


def _layers_fault(key: bytes, header: ChunkHeader, layers: Parts, rules: Rules) -> str | None:
    if [name for name, _ in layers] != [layer_key(key, number) for number in range(header.num_layers)]:
        return f"it has not the {header.num_layers} layers that its header tells"
    expected_bytes = rules.layer_bytes(header)
    for number, (_, layer) in enumerate(layers):
        if len(layer) != header.layer_bytes[number]:
            return f"layer {number} has {len(layer)} bytes instead of {header.layer_bytes[number]}"
        if xxh3_64_intdigest(layer) != header.layer_checksums[number]:
            return f"layer {number} does not match its checksum"
        if expected_bytes not in (None, len(layer)):
            return f"layer {number} has {len(layer)} bytes, and its shape calls for {expected_bytes}"
    return None


def _document_fault(key: bytes, data: memoryview) -> str | None:
    entry = DocumentEntry.from_bytes(data)
    return None if document_key(entry.name) == key else f"it is the entry of another document: {entry.name!r}"


def _ask_fault(key: bytes, data: memoryview) -> str | None:
    AskEntry.from_bytes(data)
    return None if len(key) == _ASK_KEY_BYTES else f"its key has {len(key)} bytes"


def _meta_fault(key: bytes, data: memoryview, rules: Rules) -> str | None:
    if key == IDENTITY_KEY:
        StoreIdentity.from_bytes(data)
        return None
    if key in _FIELDS:
        return None if unseal(data).keys() == _FIELDS[key] else "it has other fields"
    if key.startswith(PIN_PREFIX):
        return pin_fault(key, data)
    if key.startswith(CHAIN_PREFIX):
        return None if ChainEntry.from_bytes(data).key == key else "it is another chain"
    name = meta_name(key)
    return "its key is unknown" if name is None else rules.meta_fault(name, bytes(data))


def _check_values(database: str, items: Iterable[tuple[bytes, memoryview]], fault_of: _FaultOf) -> Batch:
    faults: list[Fault] = []
    num_entries = num_bytes = 0
    for key, data in items:
        num_entries += 1
        num_bytes += len(data)
        try:
            reason = fault_of(key, data)
        except DamagedRecord as error:
            reason = error.reason
        if reason is not None:
            faults.append(Fault(FaultKind.DAMAGED, database, key, reason))
    return Batch(Step(database, num_entries, num_bytes), tuple(faults))
