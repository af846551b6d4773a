"""The header of a stored chunk: everything about it but its keys and values.

    offset  size  field
    0       4     magic b"KVBC"
    4       8     xxh3_64 of every other byte of the header
    12      2     format version
    14      2     flags: bit 0 rotated, bit 1 positional; the other bits are kept for later (compressed layers) and
                  are zero
    16      4     size of the header in bytes
    20      ...   fingerprint 32, recipe 32, dtype 16 (ASCII, padded with zeros), then nine u32: bits, group,
                  num_layers, kv_heads, num_tokens, key_dim, value_dim, start, size of kept_indices
    136     ...   token ids (u32), layer sizes (u64), layer checksums (xxh3_64, u64), kept_indices

All integers are little-endian. The first 20 bytes keep their meaning in every version.
"""

import re
import struct
from dataclasses import dataclass, replace
from typing import Self

from xxhash import xxh3_64_intdigest

from .errors import DamagedRecord, UnknownFormat
from .keys import pack_token_ids, unpack_token_ids

MAGIC = b"KVBC"
FORMAT_VERSION = 1
HASH_BYTES = 32
DTYPE_BYTES = 16
_ROTATED, _POSITIONAL = 1, 2
_PREFIX = struct.Struct("<4sQHHI")
_BODY = struct.Struct("<32s32s16s9I")
_CHECKED_FROM = 12


@dataclass(frozen=True, kw_only=True)
class ChunkHeader:
    """What is needed to find, trust and dequantize the layers of one chunk.

    `dtype` is the model's, such as "bfloat16"; `bits` is 4, 8 or 16. `positional` tells a positional record (exact
    behind everything before it) from a content record. `rotated` tells how keys are stored: without position, or, in
    positional records alone, with their rotation from `start` on. `layer_bytes` and `layer_checksums` (xxh3_64) have
    one entry per layer; there are none in what is left of a record that was evicted. `kept_indices` is reserved for
    the kept tokens per head of sparsified chunks. Raises ValueError if the fields contradict each other.
    """

    fingerprint: bytes
    recipe: bytes
    dtype: str
    bits: int
    group: int
    num_layers: int
    kv_heads: int
    num_tokens: int
    key_dim: int
    value_dim: int
    token_ids: tuple[int, ...]
    layer_bytes: tuple[int, ...]
    layer_checksums: tuple[int, ...]
    positional: bool = False
    rotated: bool = False
    start: int = 0
    kept_indices: bytes = b""
    version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        fault = _contradiction(self)
        if fault:
            raise ValueError(f"a chunk header contradicts itself: {fault}")

    @property
    def total_bytes(self) -> int:
        """Bytes of the packed header and all layers together."""
        return header_bytes(self.num_tokens, self.num_layers) + len(self.kept_indices) + sum(self.layer_bytes)

    @property
    def is_evicted(self) -> bool:
        """Whether this is what is left of a record that gave way to others."""
        return not self.num_layers

    def evicted(self) -> Self:
        """What is left of the record when its layers go; of a content record the token ids, which are the text."""
        token_ids = () if self.positional else self.token_ids
        return replace(
            self, num_layers=0, layer_bytes=(), layer_checksums=(), token_ids=token_ids, num_tokens=len(token_ids),
            kept_indices=b"",
        )  # fmt: skip

    def pack(self) -> bytes:
        """The header as bytes, as drawn at the top of this module."""
        facts = _BODY.pack(
            self.fingerprint, self.recipe, self.dtype.encode("ascii"), self.bits, self.group, self.num_layers,
            self.kv_heads, self.num_tokens, self.key_dim, self.value_dim, self.start, len(self.kept_indices),
        )  # fmt: skip
        layers = struct.pack(f"<{2 * self.num_layers}Q", *self.layer_bytes, *self.layer_checksums)
        body = facts + pack_token_ids(self.token_ids) + layers + self.kept_indices
        size = _PREFIX.size + len(body)
        flags = (_ROTATED if self.rotated else 0) | (_POSITIONAL if self.positional else 0)
        unsigned = _PREFIX.pack(MAGIC, 0, self.version, flags, size) + body
        checksum = xxh3_64_intdigest(memoryview(unsigned)[_CHECKED_FROM:])
        return MAGIC + struct.pack("<Q", checksum) + unsigned[_CHECKED_FROM:]

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Self:
        """The inverse of `pack`; keeps no reference to `data`.

        Raises DamagedRecord if a byte was changed, lost or added, UnknownFormat if a later version wrote it.
        """
        view = memoryview(data)
        version, flags = _check_prefix(view)
        if version != FORMAT_VERSION or flags & ~(_ROTATED | _POSITIONAL):
            raise UnknownFormat("chunk header", f"{version}, flags {flags}")
        try:
            return cls._unpack_body(view[_PREFIX.size :], flags)
        except (struct.error, ValueError) as error:
            raise DamagedRecord(f"the header does not add up, {error}") from None

    @classmethod
    def _unpack_body(cls, body: memoryview, flags: int) -> Self:
        (fingerprint, recipe, dtype, bits, group, num_layers, kv_heads, num_tokens, key_dim, value_dim, start,
         kept_bytes) = _BODY.unpack_from(body)  # fmt: skip
        layers_at = _BODY.size + 4 * num_tokens
        kept_at = layers_at + 16 * num_layers
        if len(body) != kept_at + kept_bytes:
            raise ValueError(f"the sizes in it call for {kept_at + kept_bytes} bytes, not {len(body)}")
        numbers = struct.unpack(f"<{2 * num_layers}Q", body[layers_at:kept_at])
        return cls(
            fingerprint=fingerprint, recipe=recipe, dtype=dtype.rstrip(b"\0").decode("ascii"), bits=bits,
            group=group, num_layers=num_layers, kv_heads=kv_heads, num_tokens=num_tokens, key_dim=key_dim,
            value_dim=value_dim, token_ids=unpack_token_ids(body[_BODY.size : layers_at]),
            layer_bytes=numbers[:num_layers], layer_checksums=numbers[num_layers:],
            positional=bool(flags & _POSITIONAL), rotated=bool(flags & _ROTATED), start=start,
            kept_indices=bytes(body[kept_at:]),
        )  # fmt: skip


def header_bytes(num_tokens: int, num_layers: int) -> int:
    """Bytes of a packed header without kept indices."""
    return _PREFIX.size + _BODY.size + 4 * num_tokens + 16 * num_layers


def _check_prefix(view: memoryview) -> tuple[int, int]:
    """Version and flags, once magic, size and checksum are right."""
    if len(view) < _PREFIX.size:
        raise DamagedRecord(f"the header has only {len(view)} bytes")
    magic, checksum, version, flags, size = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise DamagedRecord(f"the header begins with {magic!r}")
    if size != len(view):
        raise DamagedRecord(f"the header should have {size} bytes and has {len(view)}")
    if xxh3_64_intdigest(view[_CHECKED_FROM:]) != checksum:
        raise DamagedRecord(f"the header's checksum is not {checksum:016x}")
    return version, flags


def _contradiction(header: ChunkHeader) -> str | None:
    """What is wrong with the fields, or None."""
    if len(header.fingerprint) != HASH_BYTES or len(header.recipe) != HASH_BYTES:
        return f"fingerprint and recipe have {HASH_BYTES} bytes each"
    if not re.fullmatch(f"[!-~]{{1,{DTYPE_BYTES}}}", header.dtype):
        return f"dtype is 1 to {DTYPE_BYTES} ASCII characters, not {header.dtype!r}"
    if header.bits not in (4, 8, 16):
        return f"bits is 4, 8 or 16, not {header.bits}"
    if header.num_tokens != len(header.token_ids):
        return f"num_tokens is {header.num_tokens} for {len(header.token_ids)} token ids"
    if not header.num_layers == len(header.layer_bytes) == len(header.layer_checksums):
        return f"num_layers is {header.num_layers} for {len(header.layer_bytes)} layers"
    if header.rotated and not header.positional:
        return "rotated keys belong to a positional record"
    if not header.rotated and header.start:
        return f"keys without position start at 0, not {header.start}"
    return None
