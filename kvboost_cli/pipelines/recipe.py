"""How documents are encoded and quantized: everything besides the model that decides stored bytes."""

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from blake3 import blake3

from .errors import SettingRefused

VERSION = 1
DEFAULT_BITS = 8
DEFAULT_CONTEXTS = 2
GROUPS = (32, 16, 8)
"""Quantization group sizes, best first; the first that divides the head size is taken."""


@dataclass(frozen=True)
class Recipe:
    """Settings of encoding; lengths are in tokens.

    ``contexts`` fillers of ``filler_tokens`` stand before a document in turn, 0 encodes it alone. A long document
    goes in windows of ``window_tokens``, each seeing ``overlap_tokens`` of the text before it.
    """

    bits: int
    group: int
    contexts: int
    filler_tokens: int = 256
    window_tokens: int = 1536
    overlap_tokens: int = 128
    version: int = VERSION

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that change with any setting."""
        return blake3(json.dumps(asdict(self), sort_keys=True).encode()).digest()

    @property
    def unquantized(self) -> "Recipe":
        """The same recipe at 16 bits, as exact KV is kept."""
        return replace(self, bits=16)

    @property
    def facts(self) -> dict[str, int | str]:
        """The settings for people, kept in the store."""
        return dict(asdict(self))


def make_recipe(bits: int | None, contexts: int | None, head_dim: int) -> Recipe:
    """A recipe from what the user set, with defaults for the rest."""
    group = next((size for size in GROUPS if head_dim % size == 0), None)
    if group is None:
        raise SettingRefused(f"no quantization group divides the model's head size: {head_dim}")
    return Recipe(
        bits=DEFAULT_BITS if bits is None else bits,
        group=group,
        contexts=DEFAULT_CONTEXTS if contexts is None else contexts,
    )


def recipe_from_facts(facts: dict[str, int | str]) -> Recipe:
    """The recipe that ``Recipe.facts`` told."""
    return Recipe(**{name: int(value) for name, value in facts.items() if name in Recipe.__dataclass_fields__})
