"""Prompt sizes, and orders of documents: every prompt a new one."""

import doctest
import importlib

import pytest

from kvboost_cli.bench.errors import UnknownSize
from kvboost_cli.bench.sizes import count_needed, draw_orders, parse_sizes, take_turns


@pytest.mark.parametrize("name", ["sizes", "floor", "decoding"])
def test_the_examples_in_the_docstrings_are_right(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"kvboost_cli.bench.{name}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_sizes_are_read_once_each_whatever_they_are_written_as() -> None:
    assert [(size.name, size.num_tokens) for size in parse_sizes("1k,1000, 7.5k,16")] == [
        ("1000", 1000), ("7.5k", 7500), ("16", 16),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "1k,", "k", "15", "1.5", "4 k", "-1k", "4K", "1e3", "4kk"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UnknownSize, match=r"^a size is a number of tokens from 16 on, such as 900 or 7.5k, and not: '"):
        parse_sizes(text)


@pytest.mark.parametrize(("num_available", "num_documents", "num_orders"), [(3, 3, 6), (14, 13, 30), (6, 1, 6)])
def test_no_order_comes_twice(num_available: int, num_documents: int, num_orders: int) -> None:
    orders = draw_orders(num_available, num_documents, num_orders, "1")
    assert len(set(orders)) == len(orders) == num_orders
    assert all(len(set(order)) == num_documents and max(order) < num_available for order in orders)
    assert orders == draw_orders(num_available, num_documents, num_orders, "1")
    if num_available == 14:
        assert orders != draw_orders(num_available, num_documents, num_orders, "2")


def test_just_enough_documents_are_needed() -> None:
    assert [count_needed(count, 6) for count in (1, 2, 3, 4, 12)] == [6, 3, 3, 4, 12]


def test_each_item_is_first_as_often() -> None:
    turns = [take_turns(("a", "b", "c"), number) for number in range(6)]
    assert [turn[0] for turn in turns] == ["a", "b", "c", "a", "b", "c"]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
