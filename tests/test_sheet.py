"""Tables that give columns up, and columns drawn with characters."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from kvboost_cli import sheet
from kvboost_cli.sheet import ASCII_BLOCKS, BLOCKS, LEAST_TEXT, Bars, Table, plot_lines

TABLE = Table(
    "", ("count", "size", "name"), (("1,000", "12", "a long name of a document"), ("2", "-", "b")), ("size", "count")
)


def test_the_examples_in_the_module_are_right() -> None:
    assert doctest.testmod(sheet).failed == 0


def test_a_table_gives_up_spare_columns_one_by_one() -> None:
    whole = len("count") + 2 + len("size") + 2 + LEAST_TEXT
    assert TABLE.fitted(whole) == TABLE
    assert TABLE.fitted(whole - 1).columns == ("count", "name")
    assert TABLE.fitted(whole - 1).rows == (("1,000", "a long name of a document"), ("2", "b"))
    assert TABLE.fitted(1).columns == ("name",), "what is not spare stays"


def test_bars_are_a_table_of_numbers_too() -> None:
    table = Bars("tokens", "day", ("exact", "reused"), (("monday", (1, 2000)),)).as_table()
    assert (table.columns, table.rows) == (("day", "exact", "reused"), (("monday", "1", "2,000"),))


@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=40), st.integers(1, 12), st.sampled_from([BLOCKS, ASCII_BLOCKS])
)
def test_columns_are_as_high_as_their_values(values: list[float], height: int, blocks: str) -> None:
    lines = plot_lines(values, height, 1, blocks)
    assert {len(line) for line in lines} == {len(values)}
    assert len(lines) == height
    steps = len(blocks) - 1
    for column, value in enumerate(values):
        parts = sum(blocks.index(line[column]) for line in lines)
        if value == 0:
            assert parts == 0
        else:
            assert parts >= 1, "what is there is seen"
            assert abs(parts - value / max(values) * height * steps) <= 1


def test_ascii_is_ascii_and_a_wide_column_leaves_a_gap() -> None:
    assert plot_lines([1.0, 2.0], 1, 4, ASCII_BLOCKS) == ["::: ### "]
    assert "".join(ASCII_BLOCKS).isascii()
