"""Chains over several documents: which positional records they need, and what is left when a document changes.

A document's own chain stands right behind a preamble, and its entry names it. A chain over several documents belongs
to an order that is asked; it is kept in `meta` under its last record's key, and counted as a document is.
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Self

from .errors import DamagedRecord
from .names import CHAIN_PREFIX
from .sealed import seal, unseal
from .transactions import ReadTransaction

_FIELDS = {"preamble", "documents", "position_keys"}


@dataclass(frozen=True)
class ChainedDocument:
    """A document at its place in a chain, of which it has `num_links` records."""

    name: str
    num_links: int


@dataclass(frozen=True)
class ChainEntry:
    """Documents in order behind the preamble of that positional key; `position_keys` are their records', in order."""

    preamble: bytes
    documents: tuple[ChainedDocument, ...]
    position_keys: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.position_keys or len(self.position_keys) != sum(part.num_links for part in self.documents):
            raise ValueError(f"a chain's documents have other links than it: {len(self.position_keys)}")

    @property
    def key(self) -> bytes:
        """The key in `meta`: the last record's key depends on everything before it."""
        return CHAIN_PREFIX + self.position_keys[-1]

    def before(self, names: Collection[str]) -> Self | None:
        """What stands before the first document of these names; None if that is nothing."""
        kept = list(self.documents)
        for place, document in enumerate(self.documents):
            if document.name in names:
                del kept[place:]
                break
        keys = self.position_keys[: sum(document.num_links for document in kept)]
        return replace(self, documents=tuple(kept), position_keys=keys) if keys else None

    def cut_keys(self, names: Collection[str]) -> tuple[bytes, ...]:
        """The records that are not needed any more without these documents."""
        kept = self.before(names)
        return self.position_keys[0 if kept is None else len(kept.position_keys) :]

    def to_bytes(self) -> bytes:
        """Sealed JSON."""
        keys = [key.hex() for key in self.position_keys]
        return seal({**asdict(self), "preamble": self.preamble.hex(), "position_keys": keys})

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Raises DamagedRecord."""
        values = unseal(data)
        if not isinstance(values, dict) or set(values) != _FIELDS:
            raise DamagedRecord("its fields are not those of a chain")
        return cls(
            bytes.fromhex(values["preamble"]),
            tuple(ChainedDocument(**document) for document in values["documents"]),
            tuple(map(bytes.fromhex, values["position_keys"])),
        )


def read_chains(txn: ReadTransaction) -> Iterator[ChainEntry]:
    """Every sound chain; write nothing meanwhile."""
    for _, data in txn.scan("meta", CHAIN_PREFIX):
        try:
            yield ChainEntry.from_bytes(data)
        except DamagedRecord:
            continue  # it is made anew, and the check of everything tells of it
