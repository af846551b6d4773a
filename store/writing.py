"""Writing records and documents within one transaction: what is stored once, counted, and dropped when unused.

`refs` holds, per content key, how many documents name the chunk, its tokens, and its bytes; `position_refs` the same
per positional key. Of a record that was evicted they have no bytes, and its header without layers is still there.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from .chains import ChainEntry, read_chains
from .errors import DamagedRecord, ForeignRecord, MissingChunk, MissingDocument, StoreDamaged
from .importance import note_written
from .names import CHAIN_PREFIX, IDENTITY_KEY, document_key, pin_key
from .records import ChunkHeader, ChunkRecord, DocumentEntry, StoreIdentity
from .sealed import append_checksum, strip_checksum
from .snapshot import Snapshot, layer_key
from .transactions import ReadTransaction, WriteTransaction

_CHUNK_USE = struct.Struct("<IIQ")


class RecordKind(NamedTuple):
    """The database of a kind of records, and that of their counts."""

    records: str
    counts: str


CONTENT = RecordKind("chunks", "refs")
POSITIONAL = RecordKind("positions", "position_refs")


class ChunkUse(NamedTuple):
    """Who needs a stored record, and what it takes."""

    num_documents: int
    num_tokens: int
    num_bytes: int

    def to_bytes(self) -> bytes:
        """The value in `refs` or `position_refs`."""
        return append_checksum(_CHUNK_USE.pack(*self))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Raises DamagedRecord."""
        try:
            return cls(*_CHUNK_USE.unpack(strip_checksum(data, _CHUNK_USE.size)))
        except DamagedRecord as error:
            raise DamagedRecord(f"a reference count, {error.reason}") from None


def read_identity(txn: ReadTransaction, path: Path) -> StoreIdentity:
    """Whose store this is; raises StoreDamaged if it does not say."""
    data = txn.get("meta", IDENTITY_KEY)
    if data is None:
        raise StoreDamaged(path, "it does not say which model it was built with")
    try:
        return StoreIdentity.from_bytes(data)
    except DamagedRecord as error:
        raise StoreDamaged(path, str(error)) from None


def write_document(txn: WriteTransaction, entry: DocumentEntry, records: Sequence[ChunkRecord]) -> int:
    """Stores `entry` and its records, of both kinds, in place of the previous entry; returns the bytes written."""
    given = {record.key: record for record in records}
    assert given.keys() <= {*entry.chunk_keys, *entry.position_keys}, "the entry names every record given"
    previous = Snapshot(txn).document(entry.name)
    num_bytes = 0
    for kind, new_keys in _keys_by_kind(entry).items():
        old_keys = _keys_by_kind(previous)[kind] if previous else {}
        at = entry.indexed_at
        num_bytes += sum(_require_record(txn, kind, entry.name, key, given.get(key), at) for key in new_keys)
        _count_records(txn, kind, (key for key in new_keys if key not in old_keys))
        _release_records(txn, kind, (key for key in old_keys if key not in new_keys))
    if previous is None or previous.chunk_keys != entry.chunk_keys:
        cut_chains(txn, entry.name)
    return num_bytes + _put_entry(txn, entry)


def delete_document(txn: WriteTransaction, name: str) -> bool:
    """Removes a document and the records that no other names; False if there is none of that name."""
    previous = Snapshot(txn).document(name)
    if previous:
        for kind, keys in _keys_by_kind(previous).items():
            _release_records(txn, kind, keys)
    cut_chains(txn, name)
    txn.delete("meta", pin_key(name))
    return txn.delete("documents", document_key(name))


def write_chain(txn: WriteTransaction, chain: ChainEntry, records: Sequence[ChunkRecord], at: float) -> int:
    """Stores a chain and those of its records that are given, at a Unix time; returns the bytes written."""
    given = {record.key: record for record in records}
    last = chain.documents[-1].name
    num_bytes = sum(_require_record(txn, POSITIONAL, last, key, given.get(key), at) for key in chain.position_keys)
    if txn.get("meta", chain.key) is None:
        _count_records(txn, POSITIONAL, chain.position_keys)
    txn.put("meta", chain.key, chain.to_bytes())
    return num_bytes


def delete_chain(txn: WriteTransaction, chain: ChainEntry) -> None:
    """Removes a chain and the records that nothing else names."""
    _release_records(txn, POSITIONAL, chain.position_keys)
    txn.delete("meta", chain.key)


def cut_chains(txn: WriteTransaction, name: str) -> None:
    """Takes a document, and what stands behind it, out of every chain: its text has changed or is gone."""
    for chain in [chain for chain in read_chains(txn) if chain.cut_keys({name})]:
        kept = chain.before({name})
        if kept is None or txn.get("meta", kept.key) is not None:
            delete_chain(txn, chain)
            continue
        _release_records(txn, POSITIONAL, chain.cut_keys({name}))
        txn.delete("meta", chain.key)
        txn.put("meta", kept.key, kept.to_bytes())


def rewrite_entry(txn: WriteTransaction, entry: DocumentEntry) -> int:
    """Stores `entry` over the one with the same name and lists of keys; raises MissingDocument without it."""
    previous = Snapshot(txn).document(entry.name)
    wanted = (entry.chunk_keys, entry.position_keys)
    if previous is None or (previous.chunk_keys, previous.position_keys) != wanted:
        raise MissingDocument(entry.name)
    return _put_entry(txn, entry)


def drop_positions(txn: WriteTransaction) -> None:
    """Removes every positional record and every chain; every entry forgets its own."""
    for key in txn.record_keys(POSITIONAL.counts):
        txn.delete("usage", key)
    for database in POSITIONAL:
        txn.clear(database)
    txn.delete_prefix("meta", CHAIN_PREFIX)
    for entry in list(Snapshot(txn).documents()):
        _put_entry(txn, replace(entry, position_keys=()))


def write_record(txn: WriteTransaction, record: ChunkRecord) -> int:
    """Stores a record unless a sound one is there; returns the bytes written."""
    kind = POSITIONAL if record.header.positional else CONTENT
    stored = stored_header(txn, kind, record.key)
    if stored and Snapshot(txn).verify(record.key, stored):
        return 0
    txn.delete_prefix(kind.records, record.key)
    txn.put(kind.records, record.key, record.header.pack())
    for number, layer in enumerate(record.layers):
        txn.put(kind.records, layer_key(record.key, number), layer)
    return record.header.total_bytes


def require_own_records(identity: StoreIdentity, records: Iterable[ChunkRecord]) -> None:
    """Raises ForeignRecord for a record of another model, or one with unrotated keys of another recipe."""
    for record in records:
        header = record.header
        same_recipe = header.rotated or header.recipe == identity.recipe
        if header.fingerprint != identity.fingerprint or not same_recipe:
            raise ForeignRecord(record.key)


def _keys_by_kind(entry: DocumentEntry) -> Mapping[RecordKind, dict[bytes, None]]:
    """The keys that a document names, once each and in order."""
    return {CONTENT: dict.fromkeys(entry.chunk_keys), POSITIONAL: dict.fromkeys(entry.position_keys)}


def stored_header(txn: ReadTransaction, kind: RecordKind, key: bytes) -> ChunkHeader | None:
    """The header of a record; None if it is absent, evicted or damaged."""
    reader = Snapshot(txn)
    return reader.position_header(key) if kind is POSITIONAL else reader.header(key)


def evict_record(txn: WriteTransaction, kind: RecordKind, key: bytes) -> int:
    """Drops the layers of a record that documents name; returns its bytes, 0 if there was nothing to drop.

    They go on naming it. Of a damaged or lost one nothing is left: it is made anew from the document's file.
    """
    header = stored_header(txn, kind, key)
    data = txn.get(kind.counts, key)
    if data is None or Snapshot(txn).is_evicted(key):
        return 0
    was_there = txn.get(kind.records, key) is not None
    use = ChunkUse.from_bytes(data)
    txn.put(kind.counts, key, use._replace(num_bytes=0).to_bytes())
    txn.delete_prefix(kind.records, key)
    if header is not None:
        txn.put(kind.records, key, header.evicted().pack())
    return use.num_bytes if was_there else 0


def _require_record(
    txn: WriteTransaction, kind: RecordKind, name: str, key: bytes, record: ChunkRecord | None, at: float
) -> int:
    """Makes sure the record of a document is stored, or was evicted; returns the bytes written."""
    if not record:
        if stored_header(txn, kind, key) is None and not Snapshot(txn).is_evicted(key):
            raise MissingChunk(name, key)
        return 0
    num_bytes = write_record(txn, record)
    counted = txn.get(kind.counts, key)
    if num_bytes and counted is not None:  # it was evicted or damaged
        use = ChunkUse.from_bytes(counted)._replace(num_tokens=record.header.num_tokens, num_bytes=num_bytes)
        txn.put(kind.counts, key, use.to_bytes())
    note_written(txn, key, at)
    return num_bytes


def _count_records(txn: WriteTransaction, kind: RecordKind, keys: Iterable[bytes]) -> None:
    """One document more for each record, all of which are stored."""
    for key in keys:
        data = txn.get(kind.counts, key)
        use = ChunkUse.from_bytes(data) if data is not None else _first_use(txn, kind, key)
        txn.put(kind.counts, key, use._replace(num_documents=use.num_documents + 1).to_bytes())


def _first_use(txn: WriteTransaction, kind: RecordKind, key: bytes) -> ChunkUse:
    header = stored_header(txn, kind, key)
    if header is None:  # evicted, and its count was lost
        return ChunkUse(0, 0, 0)
    return ChunkUse(0, header.num_tokens, header.total_bytes)


def _release_records(txn: WriteTransaction, kind: RecordKind, keys: Iterable[bytes]) -> None:
    """One document fewer for each record; those that nobody names any more are dropped."""
    for key in keys:
        data = txn.get(kind.counts, key)
        use = ChunkUse.from_bytes(data) if data is not None else None
        if use and use.num_documents > 1:
            txn.put(kind.counts, key, use._replace(num_documents=use.num_documents - 1).to_bytes())
        else:
            txn.delete(kind.counts, key)
            txn.delete_prefix(kind.records, key)
            txn.delete("usage", key)


def _put_entry(txn: WriteTransaction, entry: DocumentEntry) -> int:
    data = entry.to_bytes()
    txn.put("documents", document_key(entry.name), data)
    return len(data)
