"""What is known of a record's use, kept in `usage` under its key, and what follows for what has to go first.

An ask uses each record of its prompt once and gives it attention: the mean that its question gave the chunk's tokens
together, 0 to 1. Both are summed over asks and halve in HALF_LIFE_S, so that what was wanted lately counts more. To be
written counts as a use, too. Chunks have it under their content keys; a positional record, under its own, of the asks
that it served.

A value is attention, Unix time and uses (f64), then the number of asks (u32), little-endian, and a checksum. Values of
earlier versions lack the uses; the number of asks stands for them.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from .errors import DamagedRecord
from .sealed import append_checksum, strip_checksum
from .transactions import ReadTransaction, WriteTransaction

HALF_LIFE_S = 30 * 24 * 3600.0
"""A month: the questions of last quarter weigh an eighth."""

USE_ATTENTION = 0.3
"""A use counts as much as so much attention: about what a question gives the chunk that answers it."""

_VALUE = struct.Struct("<dddI")
_VALUE_WITHOUT_USES = struct.Struct("<ddI")
_CHECKSUM_BYTES = 8


@dataclass(frozen=True)
class ChunkAttention:
    """`mass` and `uses` as they were `at` that Unix time; `num_asks` prompts had the record."""

    mass: float
    at: float
    num_asks: int
    uses: float

    def mass_at(self, now: float) -> float:
        """What is left of the mass.

        >>> ChunkAttention(mass=1.0, at=0.0, num_asks=1, uses=1.0).mass_at(2 * HALF_LIFE_S)
        0.25
        """
        return self.mass * _share_left(now - self.at)

    def plus(self, mass: float, at: float) -> Self:
        """With one more ask; a clock that was set back does not take time back."""
        left = _share_left(at - self.at)
        return type(self)(self.mass * left + mass, max(at, self.at), self.num_asks + 1, self.uses * left + 1.0)

    def to_bytes(self) -> bytes:
        """The value in `usage`."""
        return append_checksum(_VALUE.pack(self.mass, self.at, self.uses, self.num_asks))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self | None:
        """None for bytes that are no such value: a lost statistic, no reason to stop."""
        try:
            if len(data) in (_VALUE_WITHOUT_USES.size, _VALUE_WITHOUT_USES.size + _CHECKSUM_BYTES):
                mass, at, num_asks = _VALUE_WITHOUT_USES.unpack(strip_checksum(data, _VALUE_WITHOUT_USES.size))
                return cls(mass, at, num_asks, float(num_asks))
            mass, at, uses, num_asks = _VALUE.unpack(strip_checksum(data, _VALUE.size))
            return cls(mass, at, num_asks, uses)
        except DamagedRecord:
            return None


def log_importance(known: ChunkAttention | None, cost: float, num_bytes: int) -> float:
    """log2 of the importance per byte: (attention + USE_ATTENTION * uses) * 2 ** (at / HALF_LIFE_S) * cost / bytes.

    All of it halves in the same time, so the order of records is the same at any moment, and "now" is left out.
    What nothing is known of comes first. `cost` is what it takes to make the record anew, in any unit.

    >>> seen = ChunkAttention(mass=0.1, at=HALF_LIFE_S, num_asks=1, uses=1.0)
    >>> round(log_importance(seen, cost=5.0, num_bytes=1), 6)
    2.0
    """
    wanted = 0.0 if known is None else (known.mass + USE_ATTENTION * known.uses) * cost
    if known is None or wanted <= 0:
        return -math.inf
    return math.log2(wanted / max(1, num_bytes)) + known.at / HALF_LIFE_S


def importance_at(known: ChunkAttention | None, now: float) -> float:
    """Attention and uses that are left at that Unix time, whatever the record costs and takes.

    >>> importance_at(ChunkAttention(mass=0.1, at=0.0, num_asks=1, uses=1.0), HALF_LIFE_S)
    0.2
    """
    return 0.0 if known is None else (known.mass + USE_ATTENTION * known.uses) * _share_left(now - known.at)


def read_attention(txn: ReadTransaction, key: bytes) -> ChunkAttention | None:
    """What is known of a record; None if it is nothing."""
    data = txn.get("usage", key)
    return None if data is None else ChunkAttention.from_bytes(data)


def add_attention(txn: WriteTransaction, masses: Mapping[bytes, float], at: float) -> None:
    """Adds an ask's mass, by key; what no document names is left out, and what was evicted is remembered."""
    for key, mass in masses.items():
        if txn.get("refs", key) is not None or txn.get("position_refs", key) is not None:
            known = read_attention(txn, key) or ChunkAttention(0.0, at, 0, 0.0)
            txn.put("usage", key, known.plus(mass, at).to_bytes())


def note_written(txn: WriteTransaction, key: bytes, at: float) -> None:
    """A record that is new in the store counts as used once."""
    if read_attention(txn, key) is None:
        txn.put("usage", key, ChunkAttention(0.0, at, 0, 1.0).to_bytes())


def _share_left(age_s: float) -> float:
    return float(0.5 ** (max(0.0, age_s) / HALF_LIFE_S))
