"""What a search found, and from chunks to documents."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Hit:
    """A chunk that answers a question's terms. `score` is BM25's, larger is better; it has no unit or upper end."""

    name: str
    chunk_index: int
    score: float


def select_documents(hits: Iterable[Hit], top_k: int) -> list[str]:
    """Return the names of at most `top_k` documents, best first, each judged by its best chunk.

    >>> select_documents([Hit("a", 0, 1.0), Hit("b", 3, 2.0), Hit("a", 1, 1.5)], 2)
    ['b', 'a']
    """
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.name] = max(hit.score, best.get(hit.name, hit.score))
    ordered = sorted(best, key=lambda name: (-best[name], name))
    return ordered[: max(0, top_k)]
