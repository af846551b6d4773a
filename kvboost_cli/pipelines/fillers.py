"""What stands before a document while it is encoded: other stretches of the collection, or neutral text.

The pool is chosen once per store, from documents spread over the first indexed collection, and kept in the store,
so encoding a document later gives the same KV. Every filler has the same length, so that contexts form a batch. Two
fillers in a row make a context: docs/fidelity.md has what their number and length are worth.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from blake3 import blake3

POOL_SIZE = 6
META_NAME = "fillers"
DIGEST_BYTES = 32
_NEUTRAL = "neutral-"

NEUTRAL_TEXTS = (
    "The valley road follows the river for most of its length. In spring the water is high and brown, and the "
    "fields on both sides are too wet to work. By June the grass has been cut once, the hay stands in rows, and "
    "the farmers mend fences that the winter has broken. People from the town come out on Sundays to walk. They "
    "bring bread and cheese, sit under the old trees near the mill, and go home before it is dark.",
    "A workshop needs good light, a level floor and a place for each tool. The bench stands under the window. "
    "Planes and chisels hang on the wall behind it, saws to the left, files in a drawer. Glue is kept away from "
    "the stove. Whoever uses a tool last cleans it, oils it if it is made of steel, and puts it back. Offcuts "
    "longer than a hand are sorted by wood and kept; the rest goes into the basket for the fire.",
    "The library opens at nine. Readers leave bags at the entrance and may bring a pencil, paper and a computer. "
    "Books from the open shelves need no form; older ones are fetched from the stacks within the hour. Maps are "
    "read at the long table on the second floor, where the light is even. The catalogue lists authors, titles and "
    "subjects, and a librarian helps with anything that it does not show.",
    "Trains leave the main station every half hour in both directions. A ticket is valid for two hours and covers "
    "buses and trams as well. Bicycles travel in the last car outside of the busy hours. When a train is late the "
    "board above the platform tells by how much, and connecting trains wait for up to five minutes. Lost things "
    "are kept for a month in the office beside the northern exit.",
)


@dataclass(frozen=True)
class Filler:
    """A stretch of ``filler_tokens`` token ids and the content hash of the document that it comes from."""

    source: str
    token_ids: tuple[int, ...]


def make_pool(
    documents: Iterable[tuple[str, Sequence[int]]], num_tokens: int, token_ids: Callable[[str], Sequence[int]]
) -> tuple[Filler, ...]:
    """A filler from the head of each ``(content hash, token ids)`` that is long enough, then the neutral ones."""
    long_enough = (Filler(source, tuple(ids[:num_tokens])) for source, ids in documents if len(ids) >= num_tokens)
    pool = list(islice(long_enough, POOL_SIZE))
    for index, text in enumerate(NEUTRAL_TEXTS):
        ids = list(token_ids(text + "\n\n"))
        repeated = ids * (num_tokens // len(ids) + 1)
        pool.append(Filler(f"{_NEUTRAL}{index}", tuple(repeated[:num_tokens])))
    return tuple(pool)


def is_neutral(filler: Filler) -> bool:
    """Whether it came with kvboost, and not from a document."""
    return filler.source.startswith(_NEUTRAL)


def choose_contexts(
    content_hash: str, pool: Sequence[Filler], count: int, num_fillers: int
) -> tuple[tuple[Filler, ...], ...]:
    """``count`` contexts of ``num_fillers`` fillers for a document, by its hash: never its own text.

    A context is a run of neighbours in the pool, so that documents share contexts. Those that begin in the collection
    come before those that begin in neutral text.
    """
    ring = [filler for filler in pool if filler.source != content_hash]
    num_own = sum(not is_neutral(filler) for filler in ring)
    starts = [*_shuffled(ring[:num_own], content_hash), *_shuffled(ring[num_own:], content_hash)]
    firsts = [ring.index(starts[index % len(starts)]) for index in range(count)]
    return tuple(tuple(ring[(first + step) % len(ring)] for step in range(num_fillers)) for first in firsts)


def _shuffled(fillers: Sequence[Filler], seed: str) -> list[Filler]:
    return sorted(fillers, key=lambda filler: blake3(f"{seed}/{filler.source}".encode()).digest())


def pool_to_bytes(pool: Sequence[Filler]) -> bytes:
    """The pool for the store: a 32-byte digest, then JSON."""
    content = json.dumps([[filler.source, list(filler.token_ids)] for filler in pool]).encode()
    return blake3(content).digest() + content


def pool_from_bytes(data: bytes) -> tuple[Filler, ...] | None:
    """The inverse of ``pool_to_bytes``; None if the bytes are damaged."""
    digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if blake3(content).digest() != digest:
        return None
    return tuple(Filler(source, tuple(ids)) for source, ids in json.loads(content))
