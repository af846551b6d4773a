"""Indexing split over machines: which share of a collection a run takes."""

from dataclasses import dataclass
from typing import Self

from blake3 import blake3

from ..documents import Document, SourceFile
from .prepare import document_title


@dataclass(frozen=True)
class Shard:
    """The share ``number`` of ``count``, counted from 1."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(f"a shard is K/N with K from 1 to N, not {self.number}/{self.count}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A shard as it is written; raises ValueError.

        >>> Shard.parse("2/8")
        Shard(number=2, count=8)
        """
        number, _slash, count = text.partition("/")
        if not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
            raise ValueError(f"a shard is written as in 2/8, not {text}")
        return cls(int(number), int(count))

    def has(self, title: str) -> bool:
        """Whether a document belongs to this share, by its path below the indexed folder.

        So every document belongs to one shard, on each machine to the same one, wherever the folder is there.
        """
        digest = blake3(title.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "little") % self.count == self.number - 1


def shard_title(source: SourceFile | Document) -> str:
    """What a document is assigned to a shard by."""
    if isinstance(source, Document):
        return document_title(source.name, source.root)
    return document_title(str(source.path), str(source.root))
