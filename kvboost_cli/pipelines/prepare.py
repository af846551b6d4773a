"""A document made ready: its chunks, their keys and texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from store import content_key, positional_key

from ..documents import Chunk, Document, TokenizedText, chunk_document
from ..model.codec import TextCodec
from ..model.fingerprint import ModelFingerprint
from .recipe import Recipe


@dataclass(frozen=True)
class PreparedDocument:
    """A document cut into chunks; ``keys`` are the chunks' content keys."""

    document: Document
    chunks: tuple[Chunk, ...]
    keys: tuple[bytes, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of all chunks."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)

    @property
    def chunk_texts(self) -> list[str]:
        """The text of each chunk, for the search index."""
        return [self.document.text[chunk.start : chunk.end] for chunk in self.chunks]


@dataclass(frozen=True)
class ChunkKeys:
    """Makes content keys for one model and recipe."""

    fingerprint: ModelFingerprint
    recipe: Recipe

    def key(self, token_ids: Sequence[int]) -> bytes:
        """The content key of a chunk's token ids."""
        return content_key(self.fingerprint.digest, self.recipe.digest, token_ids)


def preamble_key(fingerprint: ModelFingerprint, token_ids: Sequence[int], rope_variant: int) -> bytes:
    """The positional key of a prompt's first tokens, under the rotary factors that the whole prompt uses.

    Exact KV depends on no recipe; the variant stands in its place.
    """
    return positional_key(b"", fingerprint.digest, bytes([rope_variant]) * 32, token_ids)


def prepare_document(document: Document, codec: TextCodec, keys: ChunkKeys) -> PreparedDocument:
    """Cut a document and name its chunks."""
    chunks = chunk_document(document.text, lambda text: TokenizedText(*codec.tokenize(text)))
    return PreparedDocument(document, chunks, tuple(keys.key(chunk.token_ids) for chunk in chunks))
