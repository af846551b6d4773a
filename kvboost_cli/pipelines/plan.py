"""Where every token of a prompt stands and where its KV comes from. Integers only: no text, no tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class Hit(Enum):
    """Where the KV of a stretch of tokens comes from."""

    EXACT = "exact"
    CONTENT = "content"
    MISS = "miss"


@dataclass(frozen=True)
class PlacedChunk:
    """Chunk ``number`` of the prompt's chunk list at positions ``start .. start + num_tokens - 1``."""

    number: int
    start: int
    num_tokens: int
    hit: Hit

    @property
    def positions(self) -> range:
        """The chunk's places in the prompt."""
        return range(self.start, self.start + self.num_tokens)


@dataclass(frozen=True)
class Segment:
    """One document in the prompt: its header, then its chunks.

    ``seams`` are positions where a chunk follows one that is not its predecessor in the document.
    """

    header_start: int
    num_header_tokens: int
    chunks: tuple[PlacedChunk, ...]
    seams: tuple[int, ...]
    header_hit: Hit

    @property
    def header(self) -> range:
        """The header's places in the prompt."""
        return range(self.header_start, self.header_start + self.num_header_tokens)

    @property
    def num_tokens(self) -> int:
        """Tokens of header and chunks."""
        return self.num_header_tokens + sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def positions(self) -> range:
        """The places of header and chunks in the prompt."""
        return range(self.header_start, self.header_start + self.num_tokens)


@dataclass(frozen=True)
class StitchPlan:
    """The whole prompt: preamble, document segments, tail."""

    num_preamble_tokens: int
    preamble_hit: Hit
    segments: tuple[Segment, ...]
    tail_start: int
    num_tail_tokens: int

    @property
    def num_tokens(self) -> int:
        """Length of the prompt."""
        return self.tail_start + self.num_tail_tokens

    @property
    def chunks(self) -> Iterator[PlacedChunk]:
        """All chunks, in prompt order."""
        return (chunk for segment in self.segments for chunk in segment.chunks)

    def positions_with(self, hit: Hit) -> list[int]:
        """Positions of preamble, headers and chunks with this kind of hit, ascending."""
        places = list(range(self.num_preamble_tokens)) if self.preamble_hit is hit else []
        for segment in self.segments:
            places.extend(segment.header if segment.header_hit is hit else ())
            places.extend(place for chunk in segment.chunks if chunk.hit is hit for place in chunk.positions)
        return places

    def fresh_positions(self) -> list[int]:
        """Positions before the tail that have no KV, ascending."""
        return self.positions_with(Hit.MISS)

    @property
    def tail(self) -> range:
        """The tail's places in the prompt."""
        return range(self.tail_start, self.num_tokens)


@dataclass(frozen=True)
class SegmentSizes:
    """What planning needs of a document: token counts, its chunks' places in the document, and their hits.

    A header shares the record of the document's first chunk.
    """

    num_header_tokens: int
    chunk_tokens: Sequence[int]
    chunk_places: Sequence[int]
    chunk_hits: Sequence[Hit]

    @property
    def header_hit(self) -> Hit:
        """Where the header's KV comes from: without the first chunk it has to be computed, unless it is exact."""
        first = self.chunk_hits[0] if self.chunk_hits else Hit.MISS
        return Hit.MISS if first is Hit.CONTENT and self.chunk_places[0] else first


def plan_stitch(
    num_preamble_tokens: int, preamble_hit: Hit, documents: Sequence[SegmentSizes], num_tail_tokens: int
) -> StitchPlan:
    """Lay documents out in the given order behind the preamble.

    A preamble of 3, one document with a header of 2 and chunks of 5 and 4 tokens, and a tail of 6 give a prompt
    of 20 tokens with chunks at 5 and 10 and the tail at 14.
    """
    segments, position, number = [], num_preamble_tokens, 0
    for sizes in documents:
        segment = _place_segment(sizes, position, number)
        segments.append(segment)
        position += segment.num_tokens
        number += len(sizes.chunk_tokens)
    return StitchPlan(num_preamble_tokens, preamble_hit, tuple(segments), position, num_tail_tokens)


def _place_segment(sizes: SegmentSizes, header_start: int, first_number: int) -> Segment:
    chunks: list[PlacedChunk] = []
    seams: list[int] = []
    position = header_start + sizes.num_header_tokens
    for index, (length, hit) in enumerate(zip(sizes.chunk_tokens, sizes.chunk_hits, strict=True)):
        if index and sizes.chunk_places[index] != sizes.chunk_places[index - 1] + 1:
            seams.append(position)
        chunks.append(PlacedChunk(first_number + index, position, length, hit))
        position += length
    return Segment(header_start, sizes.num_header_tokens, tuple(chunks), tuple(seams), sizes.header_hit)
