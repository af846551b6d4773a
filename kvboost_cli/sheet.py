"""Figures to be shown, as values: tables, stacked bars, plots. How they are drawn is the console's business."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

GAP = 2
"""Between two columns."""

LEAST_TEXT = 16
"""Cells that a column of text gets at least; what is longer is broken into lines."""

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:|#"
"""From nothing to a full cell."""


@dataclass(frozen=True)
class Table:
    """Cells are as they are shown. A narrow terminal goes without the ``spare`` columns, the first of them first."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spare: tuple[str, ...] = ()

    def is_numeric(self, column: int) -> bool:
        """Whether all cells of a column begin as a number does, or are empty."""
        return all(row[column][:1].isdigit() or row[column] in ("", "-") for row in self.rows)

    def fitted(self, width: int) -> "Table":
        """Without those spare columns that ``width`` cells have no room for."""
        table = self
        for name in self.spare:
            if table._least_width() <= width:
                break
            table = table._without(table.columns.index(name))
        return table

    def _least_width(self) -> int:
        widths = [max(len(cell) for cell in cells) for cells in zip(self.columns, *self.rows, strict=True)]
        shown = [
            width if self.is_numeric(column) else min(width, LEAST_TEXT)
            for column, width in enumerate(widths)
        ]  # fmt: skip
        return sum(shown) + GAP * (len(shown) - 1)

    def _without(self, column: int) -> "Table":
        def cut(cells: tuple[str, ...]) -> tuple[str, ...]:
            return cells[:column] + cells[column + 1 :]

        return replace(self, columns=cut(self.columns), rows=tuple(map(cut, self.rows)))


@dataclass(frozen=True)
class Bars:
    """A bar for each row, as long as its values together, in parts by ``names``."""

    title: str
    label: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]

    def as_table(self) -> Table:
        """The same in numbers."""
        rows = tuple((label, *(f"{value:,}" for value in values)) for label, values in self.rows)
        return Table(self.title, (self.label, *self.names), rows)


@dataclass(frozen=True)
class Plot:
    """Values in order, from left to right, from 0 upwards; ``tick`` writes one at the axis."""

    title: str
    values: tuple[float, ...]
    tick: Callable[[float], str]


Part = Table | Bars | Plot


def plot_lines(values: Sequence[float], height: int, width: int = 1, blocks: str = BLOCKS) -> list[str]:
    """Columns as high as their values, the greatest ``height`` lines high, each drawn to a part of a cell.

    One is ``width`` cells wide; from two on the last of them is left free.

    >>> plot_lines([1.0, 4.0, 2.0], 2, 1, ASCII_BLOCKS)
    [' # ', ':##']
    """
    steps = len(blocks) - 1
    top = max(values, default=0.0)
    filled = [max(1, round(value / top * height * steps)) if value > 0 else 0 for value in values]
    lines = []
    for line in reversed(range(height)):
        column = [blocks[min(steps, max(0, parts - line * steps))] for parts in filled]
        lines.append("".join((block * max(1, width - 1)).ljust(width) for block in column))
    return lines


def bar_cells(values: Sequence[float], width: int) -> list[int]:
    """Cells per value by largest remainder: they sum to ``width``, or are all 0 when nothing is positive.

    >>> bar_cells([3.0, 1.0, 0.0], 8)
    [6, 2, 0]
    """
    total = sum(values)
    if total <= 0:
        return [0] * len(values)
    shares = [value / total * width for value in values]
    cells = [int(share) for share in shares]
    by_remainder = sorted(range(len(values)), key=lambda i: cells[i] - shares[i])
    for i in by_remainder[: width - sum(cells)]:
        cells[i] += 1
    return cells
