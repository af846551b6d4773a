"""Writing chunks and documents within one transaction: what is stored once, counted, and dropped when unused.

`refs` holds, per content key, how many documents name the chunk, its tokens, and its bytes.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from .errors import DamagedRecord, ForeignRecord, MissingChunk, MissingDocument, StoreDamaged
from .names import IDENTITY_KEY, document_key
from .records import ChunkRecord, DocumentEntry, StoreIdentity
from .snapshot import Snapshot, layer_key
from .transactions import ReadTransaction, WriteTransaction

_CHUNK_USE = struct.Struct("<IIQ")


class ChunkUse(NamedTuple):
    """Who needs a stored chunk, and what it takes."""

    num_documents: int
    num_tokens: int
    num_bytes: int

    def to_bytes(self) -> bytes:
        """The value in `refs`."""
        return _CHUNK_USE.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Raises DamagedRecord."""
        try:
            return cls(*_CHUNK_USE.unpack(data))
        except struct.error:
            raise DamagedRecord(f"a reference count has {len(data)} bytes") from None


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
    """Stores `entry` with its chunks in place of the document's previous entry; returns the bytes written."""
    given = {record.key: record for record in records}
    new_keys = dict.fromkeys(entry.chunk_keys)
    assert given.keys() <= new_keys.keys(), "every record given belongs to a chunk that the entry names"
    previous = Snapshot(txn).document(entry.name)
    old_keys = dict.fromkeys(previous.chunk_keys if previous else ())
    num_bytes = sum(_require_chunk(txn, entry.name, key, given.get(key)) for key in new_keys)
    _count_chunks(txn, (key for key in new_keys if key not in old_keys))
    _release_chunks(txn, (key for key in old_keys if key not in new_keys))
    return num_bytes + _put_entry(txn, entry)


def delete_document(txn: WriteTransaction, name: str) -> bool:
    """Removes a document and the chunks that no other names; False if there is none of that name."""
    previous = Snapshot(txn).document(name)
    if previous:
        _release_chunks(txn, dict.fromkeys(previous.chunk_keys))
    return txn.delete("documents", document_key(name))


def rewrite_entry(txn: WriteTransaction, entry: DocumentEntry) -> int:
    """Stores `entry` over the one with the same name and chunks; raises MissingDocument without it."""
    previous = Snapshot(txn).document(entry.name)
    if previous is None or previous.chunk_keys != entry.chunk_keys:
        raise MissingDocument(entry.name)
    return _put_entry(txn, entry)


def write_record(txn: WriteTransaction, record: ChunkRecord) -> int:
    """Stores a record unless a sound one is there; returns the bytes written."""
    database = "positions" if record.header.rotated else "chunks"
    reader = Snapshot(txn)
    stored = reader.position_header(record.key) if record.header.rotated else reader.header(record.key)
    if stored and reader.verify(record.key, stored):
        return 0
    txn.delete_prefix(database, record.key)
    txn.put(database, record.key, record.header.pack())
    for number, layer in enumerate(record.layers):
        txn.put(database, layer_key(record.key, number), layer)
    return record.header.total_bytes


def require_own_records(identity: StoreIdentity, records: Iterable[ChunkRecord]) -> None:
    """Raises ForeignRecord for a record of another model, or a content record of another recipe."""
    for record in records:
        header = record.header
        same_recipe = header.rotated or header.recipe == identity.recipe
        if header.fingerprint != identity.fingerprint or not same_recipe:
            raise ForeignRecord(record.key)


def _require_chunk(txn: WriteTransaction, document: str, key: bytes, record: ChunkRecord | None) -> int:
    """Makes sure the chunk is stored; returns the bytes written."""
    if record:
        return write_record(txn, record)
    if Snapshot(txn).header(key) is None:
        raise MissingChunk(document, key)
    return 0


def _count_chunks(txn: WriteTransaction, keys: Iterable[bytes]) -> None:
    """One document more for each chunk, all of which are stored."""
    for key in keys:
        data = txn.get("refs", key)
        use = ChunkUse.from_bytes(data) if data is not None else _first_use(txn, key)
        txn.put("refs", key, use._replace(num_documents=use.num_documents + 1).to_bytes())


def _first_use(txn: WriteTransaction, key: bytes) -> ChunkUse:
    header = Snapshot(txn).header(key)
    assert header is not None, "a chunk is stored before it is counted"
    return ChunkUse(0, header.num_tokens, header.total_bytes)


def _release_chunks(txn: WriteTransaction, keys: Iterable[bytes]) -> None:
    """One document fewer for each chunk; the chunks that nobody names any more are dropped."""
    for key in keys:
        data = txn.get("refs", key)
        use = ChunkUse.from_bytes(data) if data is not None else None
        if use and use.num_documents > 1:
            txn.put("refs", key, use._replace(num_documents=use.num_documents - 1).to_bytes())
        else:
            txn.delete("refs", key)
            txn.delete_prefix("chunks", key)


def _put_entry(txn: WriteTransaction, entry: DocumentEntry) -> int:
    data = entry.to_bytes()
    txn.put("documents", document_key(entry.name), data)
    return len(data)
