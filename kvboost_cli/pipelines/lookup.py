"""From a question to a prompt's token ids, and from keys to hits."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from store import ChunkHeader, Snapshot

from ..model.codec import TextCodec
from .asked import AskedChunk, AskedDocument
from .errors import PromptTooLong
from .plan import Hit, SegmentSizes, StitchPlan, plan_stitch
from .prepare import ChunkKeys, document_runs, preamble_key
from .prompt import header_ids


@dataclass(frozen=True)
class Prompt:
    """Token ids of all parts of a prompt, in order: preamble, for each document its header and chunks, tail."""

    preamble: tuple[int, ...]
    documents: tuple[AskedDocument, ...]
    headers: tuple[tuple[int, ...], ...]
    tail: tuple[int, ...]

    @cached_property
    def chunks(self) -> tuple[AskedChunk, ...]:
        """All chunks, in prompt order."""
        return tuple(chunk for document in self.documents for chunk in document.chunks)

    @property
    def positional_runs(self) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Each document's runs in this prompt: its header belongs to its first chunk here."""
        for header, document in zip(self.headers, self.documents, strict=True):
            yield document_runs(header, [chunk.token_ids for chunk in document.chunks])

    @property
    def content_runs(self) -> Iterator[tuple[int, ...]]:
        """The token ids of each chunk's content record: a header belongs to its document's very first chunk."""
        for header, document in zip(self.headers, self.documents, strict=True):
            yield from ((*(() if chunk.place else header), *chunk.token_ids) for chunk in document.chunks)

    @cached_property
    def token_ids(self) -> list[int]:
        """The whole prompt."""
        ids = list(self.preamble)
        for header, document in zip(self.headers, self.documents, strict=True):
            ids.extend(header)
            for chunk in document.chunks:
                ids.extend(chunk.token_ids)
        return [*ids, *self.tail]


@dataclass(frozen=True)
class FoundRecord:
    """A stored record that has the KV of a chunk; a document's first one has that of its header, too."""

    key: bytes
    header: ChunkHeader

    @property
    def hit(self) -> Hit:
        """Exact or content."""
        return Hit.EXACT if self.header.positional else Hit.CONTENT


@dataclass(frozen=True)
class Found:
    """What the store has for a prompt: the preamble's header, and each chunk's record or None."""

    preamble_key: bytes
    preamble: ChunkHeader | None
    chunks: tuple[FoundRecord | None, ...]


def build_prompt(
    codec: TextCodec, preamble: tuple[int, ...], documents: Sequence[AskedDocument], tail: tuple[int, ...]
) -> Prompt:
    """Splice a prompt from token ids."""
    headers = tuple(header_ids(codec, document.title) for document in documents)
    return Prompt(preamble, tuple(documents), headers, tail)


def find_stored(
    snapshot: Snapshot,
    prompt: Prompt,
    keys: ChunkKeys,
    rope_variant: int,
    damaged: Collection[bytes],
    *,
    content_hits: bool = True,
) -> Found:
    """Look every part up; a hit counts only if the stored token ids are those of the prompt.

    Positional records come first: those of the prompt's first chunks, up to the first one that is not there.
    ``rope_variant`` is that of a prompt of this length. Keys in ``damaged`` are misses, whatever the store says.
    Without ``content_hits`` only what is exact is found: the fidelity gate has refused the rest.
    """
    key = preamble_key(keys.fingerprint, prompt.preamble, rope_variant)
    preamble = snapshot.position_header(key) if prompt.preamble and key not in damaged else None
    if preamble is not None and tuple(preamble.token_ids) != prompt.preamble:
        preamble = None
    exact = find_chain(snapshot, keys, key, prompt.positional_runs, damaged)
    others = list(zip(prompt.chunks, prompt.content_runs, strict=True))[len(exact) :]
    content = [_find_chunk(snapshot, chunk.key, ids, damaged) if content_hits else None for chunk, ids in others]
    return Found(key, preamble, (*exact, *content))


def find_chain(
    snapshot: Snapshot,
    keys: ChunkKeys,
    parent: bytes,
    documents: Iterable[Sequence[tuple[int, ...]]],
    damaged: Collection[bytes],
) -> list[FoundRecord]:
    """The positional records of the first runs of documents behind the preamble ``parent``."""
    found: list[FoundRecord] = []
    for link in keys.chain(parent, documents):
        header = None if link.key in damaged else snapshot.position_header(link.key)
        if header is None or tuple(header.token_ids) != link.token_ids:
            break
        found.append(FoundRecord(link.key, header))
    return found


def _find_chunk(
    snapshot: Snapshot, key: bytes, token_ids: tuple[int, ...], damaged: Collection[bytes]
) -> FoundRecord | None:
    header = None if key in damaged else snapshot.header(key)
    is_hit = header is not None and tuple(header.token_ids) == token_ids
    return FoundRecord(key, header) if header is not None and is_hit else None


def nothing_stored(prompt: Prompt) -> Found:
    """As if the store were empty: full prefill."""
    return Found(b"", None, (None,) * len(prompt.chunks))


def plan_prompt(prompt: Prompt, found: Found) -> StitchPlan:
    """Lay the prompt out with the hits that were found."""
    hits = [Hit.MISS if record is None else record.hit for record in found.chunks]
    sizes, first = [], 0
    for header, document in zip(prompt.headers, prompt.documents, strict=True):
        last = first + len(document.chunks)
        sizes.append(
            SegmentSizes(
                num_header_tokens=len(header),
                chunk_tokens=[len(chunk.token_ids) for chunk in document.chunks],
                chunk_places=[chunk.place for chunk in document.chunks],
                chunk_hits=hits[first:last],
            )
        )
        first = last
    preamble_hit = Hit.MISS if found.preamble is None else Hit.EXACT
    return plan_stitch(len(prompt.preamble), preamble_hit, sizes, len(prompt.tail))


def require_room(prompt: Prompt, max_positions: int) -> int:
    """Tokens left for the answer; raises ``PromptTooLong`` with the figures and what to drop if there are none."""
    length = len(prompt.token_ids)
    if length < max_positions:
        return max_positions - length
    largest = sorted(prompt.documents, key=lambda document: -document.num_tokens)[:3]
    told = ", ".join(f"{document.title} ({document.num_tokens:,} tokens)" for document in largest)
    documents = f"; the largest documents are {told}" if told else ""
    raise PromptTooLong(
        f"the prompt does not fit the model's context of {max_positions:,} tokens{documents}: {length:,} tokens"
    )
