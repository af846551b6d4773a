"""Sheets of figures on stdout: once, or again and again in one place of a terminal.

On a terminal there are bars and plots; elsewhere everything is a table of numbers, and plots are left out.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import terminal
from ..sheet import ASCII_BLOCKS, BLOCKS, Bars, Part, Plot, Table, bar_cells, plot_lines
from . import BAR_MARKS, BAR_STYLES, PLAIN_WIDTH, draw, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

PLOT_HEIGHT = 6
PLOT_CELLS = 64
WIDEST_COLUMN = 4
LONGEST_BAR = 60
SHORTEST_BAR = 8
TERMINATED = 128 + signal.SIGTERM

Show = Callable[[Sequence[Part]], None]


def render_sheet(parts: Sequence[Part]) -> None:
    """Print the parts on stdout, an empty line between two."""
    from rich.console import Group

    draw(Group(*_renderables(parts)), data=True)


def can_redraw() -> bool:
    """Whether stdout is a terminal on which the cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


@contextmanager
def live_sheet() -> Iterator[Show]:
    """Gives a function that shows parts in place of those before, on a screen of its own that is left at the end."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(markup=False, highlight=False)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # so that the screen is left then, too
    try:
        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda parts: live.update(Group(*_renderables(parts)), refresh=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _renderables(parts: Sequence[Part]) -> Iterator[RenderableType]:
    is_terminal = sys.stdout.isatty()
    width = terminal.columns(sys.stdout) if is_terminal else PLAIN_WIDTH
    shown = [part for part in parts if is_terminal or not isinstance(part, Plot)]
    for place, part in enumerate(shown):
        if place:
            yield ""
        if isinstance(part, Table):
            yield _table(part.fitted(width))
        elif isinstance(part, Plot):
            yield _plot(part, width)
        else:
            yield _bars(part, width) if is_terminal else _table(part.as_table())


def _table(table: Table) -> RenderableType:
    return make_table(table.title, table.columns, table.rows, data=True, edge=False)


def _bars(bars: Bars, width: int) -> Text:
    """A line for each row: label, sum, bar; then what the parts of a bar are."""
    rows = [(label, f"{sum(values):,}", values) for label, values in bars.rows]
    label_cells, sum_cells = (max(len(row[i]) for row in rows) for i in (0, 1))
    longest = max(min(width - label_cells - sum_cells - 5, LONGEST_BAR), SHORTEST_BAR)
    most = max(sum(values) for _, values in bars.rows)
    text = _titled(bars.title)
    for label, total, values in rows:
        text.append(f"{label:<{label_cells}}  {total:>{sum_cells}}  ")
        length = -(-longest * sum(values) // most) if most else 0
        for i, cells in enumerate(bar_cells(values, length)):
            text.append(_mark(i) * cells, style=BAR_STYLES[i])
        text.append("\n")
    for i, name in enumerate(bars.names):
        text.append(f"{'  ' if i else ''}{_mark(i)} ", style=BAR_STYLES[i]).append(name)
    return text


def _plot(plot: Plot, width: int) -> Text:
    """As many of the last values as there is room for, with the greatest and 0 at the axis."""
    ticks = [plot.tick(max(plot.values)), plot.tick(0)]
    margin = max(map(len, ticks))
    room = max(1, min(width - margin - 3, PLOT_CELLS))
    values, draws_unicode = plot.values[-room:], terminal.draws_unicode()
    cells = min(room // len(values), WIDEST_COLUMN)
    lines = plot_lines(values, PLOT_HEIGHT, cells, BLOCKS if draws_unicode else ASCII_BLOCKS)
    axis, corner, floor = "│└─" if draws_unicode else "|+-"
    text = _titled(plot.title)
    for number, line in enumerate(lines):
        text.append(f"{ticks[0] if not number else '':>{margin}} {axis}").append(line, style=BAR_STYLES[0]).append("\n")
    return text.append(f"{ticks[1]:>{margin}} {corner}{floor * cells * len(values)}")


def _titled(title: str) -> Text:
    from rich.text import Text

    return Text().append(title, style="bold").append("\n")


def _mark(part: int) -> str:
    """A full cell where colours tell the parts of a bar apart, else a mark for each."""
    is_coloured = terminal.draws_unicode() and not os.environ.get("NO_COLOR")
    return "█" if is_coloured else BAR_MARKS[part]
