"""What questions have looked at: the attention that each chunk got, kept in `usage` under its content key.

The mass of an ask is the mean attention that its question gave the chunk's tokens together, 0 to 1. It is summed over
asks and halves in HALF_LIFE_S, so that what was wanted lately counts more. A value is mass and Unix time (f64), then
the number of asks (u32), little-endian, and a checksum.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from .errors import DamagedRecord
from .sealed import append_checksum, strip_checksum
from .transactions import ReadTransaction, WriteTransaction

HALF_LIFE_S = 30 * 24 * 3600.0
"""A month: the questions of last quarter weigh an eighth."""

_VALUE = struct.Struct("<ddI")


@dataclass(frozen=True)
class ChunkAttention:
    """`mass` as it was `at` that Unix time, from `num_asks` asks whose prompts had the chunk."""

    mass: float
    at: float
    num_asks: int

    def mass_at(self, now: float) -> float:
        """What is left of the mass.

        >>> ChunkAttention(mass=1.0, at=0.0, num_asks=1).mass_at(2 * HALF_LIFE_S)
        0.25
        """
        return float(self.mass * 0.5 ** (max(0.0, now - self.at) / HALF_LIFE_S))

    def plus(self, mass: float, at: float) -> Self:
        """With one more ask; a clock that was set back does not take time back."""
        return type(self)(self.mass_at(at) + mass, max(at, self.at), self.num_asks + 1)

    def to_bytes(self) -> bytes:
        """The value in `usage`."""
        return append_checksum(_VALUE.pack(self.mass, self.at, self.num_asks))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self | None:
        """None for bytes that are no such value: a lost statistic, no reason to stop."""
        try:
            return cls(*_VALUE.unpack(strip_checksum(data, _VALUE.size)))
        except DamagedRecord:
            return None


def read_attention(txn: ReadTransaction, key: bytes) -> ChunkAttention | None:
    """What is known of a chunk; None if no question has met it."""
    data = txn.get("usage", key)
    return None if data is None else ChunkAttention.from_bytes(data)


def add_attention(txn: WriteTransaction, masses: Mapping[bytes, float], at: float) -> None:
    """Adds an ask's mass, by content key; a chunk that is not stored is left out."""
    for key, mass in masses.items():
        if txn.get("chunks", key) is not None:
            known = read_attention(txn, key) or ChunkAttention(0.0, at, 0)
            txn.put("usage", key, known.plus(mass, at).to_bytes())
