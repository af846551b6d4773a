"""What a record from elsewhere has to be so that an ask can use it: the sizes of this model and recipe, its tokens."""

import re
from dataclasses import dataclass

from store import ChunkHeader

from ..kv.sizes import num_layer_bytes
from ..model.architecture import Geometry
from .fillers import NEUTRAL_TEXTS, POOL_SIZE, pool_from_bytes
from .recipe import Recipe
from .workspace import Workspace

_SOURCE = re.compile("[0-9a-z-]{1,64}")


@dataclass(frozen=True)
class RecordRules:
    """The sizes of one model and recipe; ``vocab_size`` bounds token ids."""

    geometry: Geometry
    vocab_size: int
    dtype: str
    recipe: Recipe

    def fault(self, header: ChunkHeader) -> str | None:
        """What is wrong with a record, or None."""
        geometry, bits = self.geometry, 16 if header.rotated else self.recipe.bits
        sizes = (geometry.num_layers, geometry.kv_heads, geometry.key_dim, geometry.value_dim)
        if (header.num_layers, header.kv_heads, header.key_dim, header.value_dim) != sizes:
            return "a record has other sizes than the model"
        if (header.bits, header.group, header.dtype) != (bits, self.recipe.group, self.dtype):
            return "a record is laid out in another way than the store's"
        if not header.token_ids or max(header.token_ids) >= self.vocab_size:
            return "a record has no tokens, or some that the model does not know"
        expected = num_layer_bytes(
            kv_heads=header.kv_heads, num_tokens=header.num_tokens, key_dim=header.key_dim, value_dim=header.value_dim,
            bits=bits, group=header.group, dtype=self.dtype,
        )  # fmt: skip
        return None if set(header.layer_bytes) == {expected} else "a record's layers have other sizes than its shape"

    def pool_fault(self, data: bytes) -> str | None:
        """What is wrong with fillers, or None."""
        try:
            pool = pool_from_bytes(data)
        except (ValueError, TypeError, RecursionError):
            pool = None
        if pool is None or not len(NEUTRAL_TEXTS) <= len(pool) <= POOL_SIZE + len(NEUTRAL_TEXTS):
            return "its fillers cannot be read"
        for filler in pool:
            known = all(isinstance(token, int) and 0 <= token < self.vocab_size for token in filler.token_ids)
            if not known or len(filler.token_ids) != self.recipe.filler_tokens:
                return "a filler has another length, or tokens that the model does not know"
            if not isinstance(filler.source, str) or not _SOURCE.fullmatch(filler.source):
                return "a filler has a source that is none"
        return None


def record_rules(workspace: Workspace) -> RecordRules:
    """The rules of a workspace; its model is not loaded."""
    handle = workspace.handle
    return RecordRules(handle.geometry, handle.vocab_size, handle.dtype, workspace.recipe)
