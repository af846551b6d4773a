"""Which orders of documents are asked for most, by the history of asks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from store import AskEntry
from store.importance import HALF_LIFE_S


@dataclass(frozen=True)
class AskedPart:
    """A document of a prompt: whole, or with the chunks at these places."""

    name: str
    places: tuple[int, ...] | None


@dataclass(frozen=True)
class AskedOrder:
    """Documents in the order of a prompt, behind the preamble of that positional key."""

    preamble: bytes
    parts: tuple[AskedPart, ...]


@dataclass(frozen=True)
class Demand:
    """How much an order is wanted: asks, the last of them at that Unix time, and asks that weigh less when older."""

    order: AskedOrder
    num_asks: int
    last_at: float
    weight: float


def rank_orders(asks: Iterable[AskEntry]) -> list[Demand]:
    """The orders, and the documents that came first, of all asks; most wanted first.

    An ask's weight halves with each ``HALF_LIFE_S`` that it is older than the latest one, so that the ranking changes
    only with new asks. Asks that do not tell their order are left out.
    """
    known = [ask for ask in asks if ask.preamble and ask.documents]
    latest = max((ask.at for ask in known), default=0.0)
    demands: dict[AskedOrder, Demand] = {}
    for ask in known:
        weight = 0.5 ** ((latest - ask.at) / HALF_LIFE_S)
        for order in _orders(ask):
            before = demands.get(order, Demand(order, 0, 0.0, 0.0))
            demands[order] = Demand(order, before.num_asks + 1, max(before.last_at, ask.at), before.weight + weight)
    return sorted(demands.values(), key=lambda demand: (-demand.weight, -demand.last_at, -len(demand.order.parts)))


def _orders(ask: AskEntry) -> Iterator[AskedOrder]:
    parts = tuple(AskedPart(name, places) for name, places in zip(ask.documents, ask.excerpts, strict=True))
    preamble = bytes.fromhex(ask.preamble)
    yield AskedOrder(preamble, parts)
    if len(parts) > 1:
        yield AskedOrder(preamble, parts[:1])
