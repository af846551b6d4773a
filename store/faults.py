"""What a check of a store finds, and the rules that only the caller knows."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from .header import ChunkHeader


class FaultKind(StrEnum):
    """What is wrong."""

    PAGE = "page"
    """The trees of LMDB do not add up: nothing in the file can be trusted, and nothing of it is repaired."""
    DAMAGED = "damaged"
    """A value is not what was written, or not under its key."""
    ORPHAN = "orphan"
    """No document names it: it takes space and does no harm."""
    COUNT = "count"
    """It is not counted as often as documents name it."""


@dataclass(frozen=True)
class Fault:
    """One fault: `database` and `key` tell where, `reason` is a clause about the value there."""

    kind: FaultKind
    database: str
    key: bytes
    reason: str


@dataclass(frozen=True)
class Step:
    """So much of a database was looked at since the last step; `num_absent` are records that documents name and that
    are not stored: they are made anew when they are needed.
    """

    database: str
    num_entries: int
    num_bytes: int
    num_absent: int = 0


@dataclass(frozen=True)
class Batch:
    """What one look into the store found."""

    step: Step
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Rules:
    """What the layers above know of values that are bytes here.

    `layer_bytes` tells the size of a record's layers by its header, None where it cannot tell. `meta_fault` tells what
    is wrong with metadata of a name, None if nothing is.
    """

    layer_bytes: Callable[[ChunkHeader], int | None] = lambda _header: None
    meta_fault: Callable[[str, bytes], str | None] = lambda _name, _data: None
