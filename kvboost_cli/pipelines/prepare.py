"""A document made ready: its chunks, their keys and texts, and its header in the prompt."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from store import content_key, positional_key

from ..documents import Chunk, Document, TokenizedText, chunk_document
from ..model.codec import TextCodec
from ..model.fingerprint import ModelFingerprint
from .prompt import header_ids
from .recipe import Recipe


@dataclass(frozen=True)
class PreparedDocument:
    """A document cut into chunks. ``header`` holds the ids that name it, ``keys`` the content keys of its runs."""

    document: Document
    chunks: tuple[Chunk, ...]
    keys: tuple[bytes, ...]
    header: tuple[int, ...]

    @cached_property
    def runs(self) -> tuple[tuple[int, ...], ...]:
        """What is stored, a record each."""
        return document_runs(self.header, [chunk.token_ids for chunk in self.chunks])

    @property
    def num_tokens(self) -> int:
        """Tokens of all runs."""
        return sum(map(len, self.runs))

    @property
    def chunk_texts(self) -> list[str]:
        """The text of each chunk, for the search index."""
        return [self.document.text[chunk.start : chunk.end] for chunk in self.chunks]


def document_runs(header: tuple[int, ...], chunks: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """The token ids of a document's records: one for each chunk, the first with the header before it."""
    return tuple((*header, *chunk) if place == 0 else chunk for place, chunk in enumerate(chunks))


@dataclass(frozen=True)
class ChainLink:
    """A run of tokens at its place in a prompt."""

    key: bytes
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class ChunkKeys:
    """Makes the keys of one model and recipe."""

    fingerprint: ModelFingerprint
    recipe: Recipe

    def key(self, token_ids: Sequence[int]) -> bytes:
        """The content key of a run's token ids."""
        return content_key(self.fingerprint.digest, self.recipe.digest, token_ids)

    def chain(self, preamble_key: bytes, documents: Iterable[Sequence[tuple[int, ...]]]) -> Iterator[ChainLink]:
        """A link for each run of documents, given by their runs, that stand in this order behind a preamble.

        Ends before a document that has no run.
        """
        parent = preamble_key
        for runs in documents:
            if not runs:
                return
            for token_ids in runs:
                parent = positional_key(parent, self.fingerprint.digest, self.recipe.digest, token_ids)
                yield ChainLink(parent, token_ids)


def preamble_key(fingerprint: ModelFingerprint, token_ids: Sequence[int], rope_variant: int) -> bytes:
    """The positional key of a prompt's first tokens, under the rotary factors that the whole prompt uses.

    Exact KV depends on no recipe; the variant stands in its place.
    """
    return positional_key(b"", fingerprint.digest, bytes([rope_variant]) * 32, token_ids)


def document_title(name: str, root: str) -> str:
    """How a prompt's header names a document: by its path below the folder that was indexed.

    One that came without a file is named below its ``root`` in the same way (see ``portable``).
    """
    if not os.path.isabs(name):
        return name.removeprefix(f"{root}/") if root else name
    return os.path.relpath(name, root) if root else name


def prepare_document(document: Document, codec: TextCodec, keys: ChunkKeys) -> PreparedDocument:
    """Cut a document and name its chunks."""
    chunks = chunk_document(document.text, lambda text: TokenizedText(*codec.tokenize(text)))
    header = header_ids(codec, document_title(document.name, document.root))
    runs = document_runs(header, [chunk.token_ids for chunk in chunks])
    return PreparedDocument(document, chunks, tuple(map(keys.key, runs)), header)
