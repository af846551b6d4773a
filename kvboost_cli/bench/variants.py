"""The variants that are compared: how documents were encoded, and how their reused KV is repaired."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import OrderNotShared, UnknownVariant

ALONE = "alone"
GRAMMAR = re.compile(rf"(?P<alone>{ALONE}/)?(?P<repair>[a-z]+)(?::(?P<ratio>[0-9]+(?:\.[0-9]+)?|\.[0-9]+))?")


@dataclass(frozen=True)
class Variant:
    """A repair strategy and its ratio, None for its own; ``alone``: over chunks that were encoded without contexts."""

    repair: str
    ratio: float | None = None
    alone: bool = False

    @property
    def name(self) -> str:
        """As ``--variant`` takes it.

        >>> Variant("question", 0.02).name
        'question:0.02'
        """
        return f"{f'{ALONE}/' if self.alone else ''}{self.repair}{'' if self.ratio is None else f':{self.ratio:g}'}"

    @property
    def label(self) -> str:
        """For people.

        >>> Variant("cacheblend", 0.15, alone=True).label
        'cacheblend 15 %, alone'
        """
        share = "" if self.ratio is None else f" {self.ratio * 100:g} %"
        return f"{self.repair}{share}{', alone' if self.alone else ''}"


BASELINE = Variant("cacheblend", 0.15, alone=True)
"""B, CacheBlend as published: chunks encoded alone, 15 % recomputed."""

DEFAULT_VARIANTS = (
    BASELINE,
    Variant("none"),
    Variant("selective"),
    Variant("cacheblend"),
    Variant("auto"),
)


def label_of(name: str) -> str:
    """The label of the variant that has this name; the baseline's tells that it is B.

    >>> label_of("question:0.02")
    'question 2 %'
    """
    found = GRAMMAR.fullmatch(name)
    label = name if found is None else _from_match(found).label
    return f"B: {label}" if name == BASELINE.name else label


def parse_variants(texts: Iterable[str], strategies: Iterable[str]) -> tuple[Variant, ...]:
    """The variants that ``--variant`` names, each once; ``strategies`` are those of ``--repair``.

    Raises ``UnknownVariant``.
    """
    known = tuple(strategies)
    return tuple(dict.fromkeys(_parse(text, known) for text in texts))


def require_one_order(variants: Iterable[Variant], order: str) -> None:
    """Raise ``OrderNotShared`` where the variants of a prompt would not have their documents in the same order."""
    alone = [variant.name for variant in variants if variant.alone]
    if order == "exact" and alone:
        raise OrderNotShared(f"the order exact goes by exact KV, which this variant has none of: {alone[0]}")


def _parse(text: str, known: tuple[str, ...]) -> Variant:
    found = GRAMMAR.fullmatch(text.strip())
    if found is None or found["repair"] not in known:
        raise UnknownVariant(
            f"a variant is [{ALONE}/]STRATEGY[:RATIO] with one of {', '.join(known)}, and not: {text!r}"
        )
    variant = _from_match(found)
    if variant.ratio is not None and not 0 < variant.ratio <= 1:
        raise UnknownVariant(f"a variant's ratio is over 0 and up to 1, and not: {text!r}")
    if variant.ratio is not None and variant.repair == "none":
        raise UnknownVariant(f"the strategy none repairs nothing and takes no ratio: {text!r}")
    return variant


def _from_match(found: re.Match[str]) -> Variant:
    ratio = None if found["ratio"] is None else float(found["ratio"])
    return Variant(found["repair"], ratio, alone=found["alone"] is not None)
