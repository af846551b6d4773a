"""Reading: one consistent state of the store, in which a damaged record is the same as none.

Layout in the databases `chunks` (content records) and `positions` (positional records):

    key (32 bytes)                         the header
    key + layer number (u16, big-endian)   that layer's bytes

so a record is one run of keys that begin with its key, header first and layers in order. Of a record that was evicted
the header alone is left, and tells of no layers.
"""

import struct
from collections.abc import Iterator, Sequence

from xxhash import xxh3_64_intdigest

from .chains import ChainEntry, read_chains
from .errors import DamagedRecord, UnknownFormat
from .header import ChunkHeader
from .importance import ChunkAttention, read_attention
from .names import document_key, meta_key
from .records import DocumentEntry
from .transactions import ReadTransaction

_NUM_DOCUMENTS = struct.Struct("<I")
"""How a count in `refs` and `position_refs` begins; see `writing`."""


def layer_key(key: bytes, layer: int) -> bytes:
    """The key of one layer of the record `key`.

    >>> layer_key(b"k", 258)
    b'k\\x01\\x02'
    """
    return key + struct.pack(">H", layer)


class Snapshot:
    """Reads within one short transaction; use it from one thread at a time.

    `damaged` lists the keys of what was found damaged: content keys, positional keys, documents' keys.
    """

    def __init__(self, transaction: ReadTransaction) -> None:
        self.damaged: list[bytes] = []
        self._transaction = transaction
        self._views: list[memoryview] = []

    def header(self, key: bytes) -> ChunkHeader | None:
        """The header under a content key; None if it is absent, evicted or damaged."""
        return self._full_header("chunks", key)

    def position_header(self, key: bytes) -> ChunkHeader | None:
        """The header under a positional key; None if it is absent, evicted or damaged."""
        return self._full_header("positions", key)

    def token_ids(self, key: bytes) -> tuple[int, ...] | None:
        """The token ids under a content key, of an evicted record, too; None if it is absent or damaged."""
        header = self._header("chunks", key)
        return None if header is None else header.token_ids

    def is_evicted(self, key: bytes) -> bool:
        """Whether a record under a key of either kind gave way to others."""
        header = self._header("chunks", key) or self._header("positions", key)
        return header is not None and header.is_evicted

    def layer(self, key: bytes, layer: int, header: ChunkHeader) -> memoryview:
        """One layer's bytes, checked against its checksum and not copied; `header` is the record's.

        The view points into the memory map. It is valid only within the snapshot, which releases it at its
        end: copy or dequantize before. A slice of it, or a tensor made from it, must not be used afterwards.
        Raises DamagedRecord if the layer is absent, cut short or changed.
        """
        view = self._checked_layer(key, layer, header)
        if view is None:
            self.damaged.append(key)
            raise DamagedRecord(f"layer {layer} of {key.hex()}")
        self._views.append(view)
        return view

    def verify(self, key: bytes, header: ChunkHeader) -> bool:
        """Whether every layer of the record is there and unchanged."""
        sound = all(self._checked_layer(key, layer, header) is not None for layer in range(header.num_layers))
        if not sound:
            self.damaged.append(key)
        return sound

    def missing(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those content keys, in order and once each, that have no sound header of a record. Layers are not read."""
        return [key for key in dict.fromkeys(keys) if self.header(key) is None]

    def missing_positions(self, keys: Sequence[bytes]) -> list[bytes]:
        """The same of positional keys."""
        return [key for key in dict.fromkeys(keys) if self.position_header(key) is None]

    def lost(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those keys of either kind, in order and once each, whose record is neither stored nor evicted."""
        gone = (key for key in dict.fromkeys(keys) if self.header(key) is None and self.position_header(key) is None)
        return [key for key in gone if not self.is_evicted(key)]

    def document(self, name: str) -> DocumentEntry | None:
        """The entry of a document; None if it is absent or damaged."""
        key = document_key(name)
        data = self._transaction.get("documents", key)
        return None if data is None else self._entry(key, data)

    def documents(self) -> Iterator[DocumentEntry]:
        """Every sound entry, one at a time, ordered by the bytes of its name."""
        for key, data in self._transaction.scan("documents"):
            entry = self._entry(key, data)
            if entry is not None:
                yield entry

    def document_names(self) -> Iterator[str]:
        """The names of `documents()`."""
        return (entry.name for entry in self.documents())

    def chains(self) -> Iterator[ChainEntry]:
        """Every sound chain over several documents."""
        return read_chains(self._transaction)

    def is_shared(self, key: bytes) -> bool:
        """Whether more than one document names the record under a key of either kind."""
        data = self._transaction.get("refs", key) or self._transaction.get("position_refs", key)
        return data is not None and _NUM_DOCUMENTS.unpack_from(data)[0] > 1

    def preamble_keys(self) -> Iterator[bytes]:
        """The keys of positional records that are rotated, those of preambles; every record's header is looked at."""
        for key in self._transaction.record_keys("positions"):
            header = self.position_header(key)
            if header is not None and header.rotated:
                yield key

    def attention(self, key: bytes) -> ChunkAttention | None:
        """How the record under a key of either kind was used; None if nothing is known of it."""
        return read_attention(self._transaction, key)

    def meta(self, name: str) -> bytes | None:
        """What `put_meta` stored under `name`, or None."""
        data = self._transaction.get("meta", meta_key(name))
        return None if data is None else bytes(data)

    def end(self) -> int:
        """Releases every view handed out; returns how many something still holds."""
        return sum(not _release(view) for view in self._views)

    def _full_header(self, database: str, key: bytes) -> ChunkHeader | None:
        header = self._header(database, key)
        return None if header is None or header.is_evicted else header

    def _header(self, database: str, key: bytes) -> ChunkHeader | None:
        data = self._transaction.get(database, key)
        if data is None:
            return None
        try:
            return ChunkHeader.unpack(data)
        except (DamagedRecord, UnknownFormat):
            self.damaged.append(key)
            return None

    def _checked_layer(self, key: bytes, layer: int, header: ChunkHeader) -> memoryview | None:
        database = "positions" if header.positional else "chunks"
        view = self._transaction.get(database, layer_key(key, layer))
        if view is None or len(view) != header.layer_bytes[layer]:
            return None
        return view if xxh3_64_intdigest(view) == header.layer_checksums[layer] else None

    def _entry(self, key: bytes, data: memoryview) -> DocumentEntry | None:
        try:
            return DocumentEntry.from_bytes(data)
        except DamagedRecord:
            self.damaged.append(key)
            return None


def _release(view: memoryview) -> bool:
    try:
        view.release()
    except BufferError:
        return False
    return True
