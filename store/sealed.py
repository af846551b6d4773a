"""Small values as sealed JSON: a checksum (xxh3_64, little-endian u64), then canonical JSON in ASCII.

ASCII escapes carry the lone surrogates of file names that are not UTF-8 through unchanged.
"""

import json
import struct
from typing import Any

from xxhash import xxh3_64_intdigest

from .errors import DamagedRecord

_CHECKSUM = struct.Struct("<Q")


def seal(value: object) -> bytes:
    """`value` (what JSON can hold) as bytes that `unseal` can check."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")
    return _CHECKSUM.pack(xxh3_64_intdigest(text)) + text


def unseal(data: bytes | memoryview) -> Any:
    """The value that was sealed; raises DamagedRecord if a byte was changed, lost or added."""
    text = bytes(data[_CHECKSUM.size :])
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack_from(data)[0] != xxh3_64_intdigest(text):
        raise DamagedRecord(f"the checksum of a small value does not match its {len(data)} bytes")
    return json.loads(text)


def append_checksum(data: bytes) -> bytes:
    """`data` and its checksum; for values that are packed, not JSON."""
    return data + _CHECKSUM.pack(xxh3_64_intdigest(data))


def strip_checksum(data: bytes | memoryview, num_bytes: int) -> bytes:
    """The `num_bytes` to which a checksum was appended; raises DamagedRecord if a byte was changed, lost or added.

    Values of stores made before there was a checksum have none, and are taken as they are.
    """
    value = bytes(data[:num_bytes])
    if len(data) != num_bytes and bytes(data) != append_checksum(value):
        raise DamagedRecord(f"the checksum of a packed value does not match its {len(data)} bytes")
    if len(value) != num_bytes:
        raise DamagedRecord(f"a packed value has {len(data)} bytes instead of {num_bytes}")
    return value
