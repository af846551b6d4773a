"""What it takes to store documents, in tokens and bytes: from sizes alone, without a model and without torch."""

from dataclasses import dataclass
from typing import Self

from store import file_bytes, header_bytes

from ..kv.sizes import num_layer_bytes
from ..model.architecture import Geometry
from .recipe import Recipe

CHUNK_TOKENS = 256
"""About the size of a chunk; what a token takes in the store depends on it by a few per cent."""


@dataclass(frozen=True)
class Cost:
    """Tokens of content and of exact KV to compute, bytes of values, and bytes of the pages that these take."""

    content_tokens: int = 0
    exact_tokens: int = 0
    value_bytes: int = 0
    file_bytes: int = 0

    def plus(self, other: "Cost | None") -> Self:
        """Both together."""
        if other is None:
            return self
        return type(self)(
            self.content_tokens + other.content_tokens,
            self.exact_tokens + other.exact_tokens,
            self.value_bytes + other.value_bytes,
            self.file_bytes + other.file_bytes,
        )


@dataclass(frozen=True)
class RecordSizes:
    """Bytes of the records of one model and recipe; ``dtype`` counts only at 16 bits."""

    geometry: Geometry
    recipe: Recipe
    dtype: str

    def of_record(self, num_tokens: int) -> tuple[int, ...]:
        """The header's bytes and then each layer's."""
        geometry = self.geometry
        layer = num_layer_bytes(
            kv_heads=geometry.kv_heads, num_tokens=num_tokens, key_dim=geometry.key_dim,
            value_dim=geometry.value_dim, bits=self.recipe.bits, group=self.recipe.group, dtype=self.dtype,
        )  # fmt: skip
        return (header_bytes(num_tokens, geometry.num_layers), *[layer] * geometry.num_layers)

    @property
    def bytes_per_token(self) -> float:
        """Of the store's file, per token of a document: twice what a chunk takes if it is kept exact, too."""
        copies = 2 if self.recipe.exact else 1
        return copies * file_bytes(self.of_record(CHUNK_TOKENS)) / CHUNK_TOKENS
