"""Prompt sizes as ``--sizes`` takes them, and orders of documents that make prompts of a size. Integers only."""

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from .errors import UnknownSize

GRAMMAR = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<thousands>k?)")
MIN_TOKENS = 16

Item = TypeVar("Item")


@dataclass(frozen=True)
class PromptSize:
    """About how many tokens a prompt has, and how the user wrote it."""

    name: str
    num_tokens: int


def parse_sizes(text: str) -> tuple[PromptSize, ...]:
    """The sizes of a list such as ``1k,7.5k``, each once. Raises ``UnknownSize``.

    >>> parse_sizes("900, 7.5k")
    (PromptSize(name='900', num_tokens=900), PromptSize(name='7.5k', num_tokens=7500))
    """
    sizes = (_parse(name.strip()) for name in text.split(","))
    return tuple({size.num_tokens: size for size in sizes}.values())


def _parse(name: str) -> PromptSize:
    found = GRAMMAR.fullmatch(name)
    num_tokens = 0 if found is None else round(float(found["number"]) * (1000 if found["thousands"] else 1))
    if num_tokens < MIN_TOKENS:
        raise UnknownSize(f"a size is a number of tokens from {MIN_TOKENS} on, such as 900 or 7.5k, and not: {name!r}")
    return PromptSize(name, num_tokens)


def count_documents(num_tokens: int, frame_tokens: int, document_tokens: int) -> int:
    """How many documents bring a prompt nearest to ``num_tokens``, at least one.

    ``frame_tokens`` stand around the documents.

    >>> count_documents(1300, 60, 313)
    4
    """
    return max(1, round((num_tokens - frame_tokens) / document_tokens))


def count_needed(num_documents: int, num_orders: int) -> int:
    """The fewest documents of which ``num_documents`` can be drawn in ``num_orders`` orders.

    >>> count_needed(3, 6), count_needed(3, 7), count_needed(1, 6)
    (3, 4, 6)
    """
    needed = num_documents
    while math.perm(needed, num_documents) < num_orders:
        needed += 1
    return needed


def draw_orders(num_available: int, num_documents: int, num_orders: int, seed: str) -> tuple[tuple[int, ...], ...]:
    """``num_orders`` different orders of ``num_documents`` out of ``num_available``; the same seed gives them again."""
    assert math.perm(num_available, num_documents) >= num_orders, "there are not so many orders"
    chance = random.Random(seed)
    orders: dict[tuple[int, ...], None] = {}
    while len(orders) < num_orders:
        orders[tuple(chance.sample(range(num_available), num_documents))] = None
    return tuple(orders)


def take_turns(items: Sequence[Item], number: int) -> tuple[Item, ...]:
    """The items in turn, another one first each time.

    >>> take_turns("abc", 4)
    ('b', 'c', 'a')
    """
    first = number % len(items)
    return (*items[first:], *items[:first])
