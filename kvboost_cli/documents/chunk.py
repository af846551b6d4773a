"""From a document's text to chunks of token ids: content-defined, so that an edit moves only the cuts near it.

Candidates are taken best first, by rank and then by a hash of the text around them, and each becomes a cut where
the piece it falls into is still too long and both halves stay long enough. The cuts therefore depend on what stands
around them and not on what was cut before: the result is that of a treap, and resynchronises at once.
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from .boundaries import Rank, find_boundaries

MIN_TOKENS = 128
MAX_TOKENS = 512
# A piece longer than this is cut at a boundary of the rank: the better the boundary, the sooner.
SPLIT_OVER = {
    Rank.BLOCK: 320,
    Rank.BLANK: 400,
    Rank.SENTENCE: 480,
    Rank.LINE: 480,
    Rank.FENCED_BLANK: MAX_TOKENS,
    Rank.FENCED_LINE: MAX_TOKENS,
    Rank.TOKEN: MAX_TOKENS,
    Rank.INSIDE: MAX_TOKENS,
}
_HASHED_BEFORE = 32
_HASHED_AFTER = 64
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")


@dataclass(frozen=True)
class TokenizedText:
    """A text's token ids, without special tokens, and each token's (start, end) characters.

    Starts do not decrease. Tokens that share one character overlap; text between tokens may belong to none.
    """

    ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Chunk:
    """A run of a document's tokens. The spans [start, end) of a document's chunks tile its text, in characters."""

    index: int
    token_ids: tuple[int, ...]
    start: int
    end: int


def chunk_document(text: str, tokenize: Callable[[str], TokenizedText]) -> tuple[Chunk, ...]:
    """Cut a document into chunks of 128 to 512 tokens, about 256; one of fewer tokens is one chunk, of none none.

    The chunks' ids in a row are `tokenize(text).ids` exactly.
    """
    tokens = tokenize(text)
    num_tokens = len(tokens.ids)
    if num_tokens == 0:
        return ()
    edges = [0, *plan_cuts(text, tokens.offsets), num_tokens]
    spots = [0, *(tokens.offsets[edge][0] for edge in edges[1:-1]), len(text)]
    return tuple(
        Chunk(index, tuple(tokens.ids[first:last]), spots[index], spots[index + 1])
        for index, (first, last) in enumerate(pairwise(edges))
    )


def plan_cuts(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Return the indices of the tokens that begin a chunk, but for the first, in order."""
    num_tokens = len(offsets)
    edges = [0, num_tokens]
    if num_tokens <= min(SPLIT_OVER.values()):
        return []
    starts = [start for start, _ in offsets]
    ranks = _rank_tokens(text, offsets, starts)
    order = sorted((rank, _local_hash(text, starts[token]), token) for token, rank in ranks.items())
    _place(edges, ((rank, token) for rank, _, token in order))
    for rank in (Rank.TOKEN, Rank.INSIDE):
        for first, last in list(pairwise(edges)):
            if last - first > MAX_TOKENS:
                _cut_anywhere(edges, text, offsets, range(first + MIN_TOKENS, last - MIN_TOKENS + 1), rank)
    return edges[1:-1]


def _place(edges: list[int], candidates: Iterable[tuple[Rank, int]]) -> None:
    """Insert into the sorted `edges` each candidate, best first, that its piece is long enough for."""
    for rank, token in candidates:
        right = bisect_left(edges, token)
        if right == 0 or right == len(edges):
            continue
        before, after = token - edges[right - 1], edges[right] - token
        if min(before, after) >= MIN_TOKENS and before + after > SPLIT_OVER[rank]:
            edges.insert(right, token)


def _cut_anywhere(edges: list[int], text: str, offsets: Sequence[tuple[int, int]], reach: range, rank: Rank) -> None:
    """Cut one overlong piece between tokens in `reach`, in the order of the hashes there."""
    allowed = (token for token in reach if rank is Rank.INSIDE or _splits_no_character(text, offsets, token))
    order = sorted((_local_hash(text, offsets[token][0]), token) for token in allowed)
    _place(edges, ((rank, token) for _, token in order))


def _rank_tokens(text: str, offsets: Sequence[tuple[int, int]], starts: list[int]) -> dict[int, Rank]:
    """Map tokens to the best rank of the boundaries in front of them."""
    ranks: dict[int, Rank] = {}
    for position, rank in find_boundaries(text):
        token = _token_at(text, offsets, starts, position)
        if token is not None and rank < ranks.get(token, Rank.INSIDE):
            ranks[token] = rank
    return ranks


def _token_at(text: str, offsets: Sequence[tuple[int, int]], starts: list[int], position: int) -> int | None:
    """Return the token to cut before for a boundary: one that starts in the white space around it, if any does."""
    left = right = position
    while left and text[left - 1].isspace():
        left -= 1
    while right < len(text) and text[right].isspace():
        right += 1
    after = bisect_left(starts, position)
    for token in (after, after - 1):  # white space rather goes to the chunk before
        if 0 < token < len(starts) and left <= starts[token] <= right and offsets[token - 1][1] <= starts[token]:
            return token
    return None


def _splits_no_character(text: str, offsets: Sequence[tuple[int, int]], token: int) -> bool:
    """Tell whether a cut before `token` keeps characters, line ends and what combines into one sign whole."""
    start = offsets[token][0]
    if offsets[token - 1][1] > start or start >= len(text):
        return False
    char, before = text[start], text[start - 1 : start]
    if char in _JOINERS or before == "\u200d" or unicodedata.combining(char):
        return False
    return not (before == "\r" and char == "\n")


def _local_hash(text: str, position: int) -> bytes:
    near = text[max(0, position - _HASHED_BEFORE) : position + _HASHED_AFTER]
    return blake2b(near.encode("utf-8", "surrogatepass"), digest_size=8).digest()
