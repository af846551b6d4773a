"""Which orders are wanted most, by the history alone."""

from kvboost_cli.pipelines.demand import AskedOrder, AskedPart, rank_orders
from store import AskEntry
from store.importance import HALF_LIFE_S

PREAMBLE, OTHER = "ab" * 32, "cd" * 32


def make_ask(at: float, *names: str, preamble: str = PREAMBLE, places: tuple[int, ...] | None = None) -> AskEntry:
    return AskEntry(
        at, "m", "none", 9, 1, 2, 3, 4, 5, 0.5, 1, 2, 3, None, names, preamble, (places,) * len(names)
    )  # fmt: skip


def ranked(*asks: AskEntry) -> list[tuple[tuple[str, ...], int]]:
    """Names and counts of the orders, most wanted first."""
    demands = rank_orders(asks)
    return [(tuple(part.name for part in demand.order.parts), demand.num_asks) for demand in demands]


def test_an_ask_counts_for_its_order_and_for_its_first_document() -> None:
    asks = [make_ask(1.0, "a", "b"), make_ask(2.0, "a", "c"), make_ask(3.0, "b")]
    assert ranked(*asks) == [(("a",), 2), (("b",), 1), (("a", "c"), 1), (("a", "b"), 1)]


def test_an_old_ask_weighs_less_than_a_new_one() -> None:
    old = [make_ask(0.0, "a", "b")] * 3
    assert ranked(*old, make_ask(HALF_LIFE_S, "c"))[0] == (("a", "b"), 3)
    assert ranked(*old, make_ask(2 * HALF_LIFE_S, "c"))[0] == (("c",), 1)


def test_excerpts_and_preambles_make_other_orders() -> None:
    asks = [make_ask(1.0, "a"), make_ask(2.0, "a", places=(0, 2)), make_ask(3.0, "a", preamble=OTHER)]
    orders = [demand.order for demand in rank_orders(asks)]
    assert orders == [
        AskedOrder(bytes.fromhex(OTHER), (AskedPart("a", None),)),
        AskedOrder(bytes.fromhex(PREAMBLE), (AskedPart("a", (0, 2)),)),
        AskedOrder(bytes.fromhex(PREAMBLE), (AskedPart("a", None),)),
    ]


def test_an_ask_that_does_not_tell_its_order_counts_for_none() -> None:
    assert ranked(make_ask(1.0, "a", "b").without({"b"}), make_ask(2.0)) == []
