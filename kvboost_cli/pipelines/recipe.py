"""How documents are encoded and quantized: everything besides the model that decides stored bytes."""

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from blake3 import blake3

from .errors import SettingRefused

VERSION = 3
DEFAULT_BITS = 8
DEFAULT_CONTEXTS = 2
DEFAULT_EXACT = True
GROUPS = (32, 16, 8)
"""Quantization group sizes, best first; the first that divides the head size is taken."""


@dataclass(frozen=True)
class Recipe:
    """Settings of encoding; lengths are in tokens.

    A document is encoded behind ``contexts`` contexts in turn, each of ``fillers`` fillers of ``filler_tokens`` (one
    filler if the model's own context is short); with 0 contexts it is encoded alone. A long document goes in windows
    of ``window_tokens``, each seeing ``overlap_tokens`` of the text before it. ``exact`` documents are kept a second
    time, as they are right behind the preamble.
    """

    bits: int
    group: int
    contexts: int
    fillers: int = 2
    filler_tokens: int = 256
    window_tokens: int = 1536
    overlap_tokens: int = 128
    exact: bool = DEFAULT_EXACT
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


def make_recipe(bits: int | None, contexts: int | None, head_dim: int, exact: bool | None = None) -> Recipe:
    """A recipe from what the user set, with defaults for the rest."""
    group = next((size for size in GROUPS if head_dim % size == 0), None)
    if group is None:
        raise SettingRefused(f"no quantization group divides the model's head size: {head_dim}")
    return Recipe(
        bits=DEFAULT_BITS if bits is None else bits,
        group=group,
        contexts=DEFAULT_CONTEXTS if contexts is None else contexts,
        exact=DEFAULT_EXACT if exact is None else exact,
    )


def recipe_from_facts(facts: dict[str, int | str]) -> Recipe:
    """The recipe that ``Recipe.facts`` told."""
    known: dict[str, Any] = {
        name: bool(value) if name == "exact" else int(value)
        for name, value in facts.items()
        if name in Recipe.__dataclass_fields__
    }
    return Recipe(**known)
