"""Everything that kvboost prints: data on stdout, talk on stderr. The only package that imports rich.

On a terminal a table may be coloured and progress is redrawn (rich honours ``NO_COLOR``); elsewhere there are
plain lines without escape codes. rich is imported only when something is drawn. A reader that closes stdout
early is reported to the caller as ``BrokenPipeError``; a stderr that is closed or full never stops the work.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TextIO

from .. import terminal
from ..progress import IndexProgress, StepProgress, describe_progress, describe_steps
from ..sheet import bar_cells

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

PLAIN_WIDTH = 200  # wide enough that no path is cut where nobody sees a screen
BAR_MARKS = "#=%@*o:~"
BAR_STYLES = ("cyan", "blue", "magenta", "yellow", "red", "green", "white", "bright_black")


def prepare_streams() -> None:
    """Make both streams accept any file name (odd bytes come out escaped), and exist."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def silence(stream: TextIO) -> None:
    """Send what is still buffered for a closed pipe to nowhere, so that the interpreter's exit is quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write(text: str) -> None:
    """Data: ``text`` to stdout as it is, at once. ``BrokenPipeError`` when the reader has gone."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_facts(text: str, *, indent: int = 2) -> None:
    """Data: lines of facts; on a terminal those that are too long are broken between words and go on indented."""
    write(terminal.folded(text, sys.stdout, indent) if sys.stdout.isatty() else text)


def write_text(text: str) -> None:
    """Data that may hold anything, such as an answer: on a terminal without what would drive it."""
    write(terminal.without_controls(text) if sys.stdout.isatty() else text)


def write_json_line(value: Mapping[str, object]) -> None:
    """Data: one JSON object on a line of its own."""
    write(json.dumps(value, ensure_ascii=not _is_utf8(), default=str) + "\n")


def write_json(value: Mapping[str, object] | Sequence[object]) -> None:
    """Data: one JSON document on stdout; a path or other object as its string."""
    write(json.dumps(value, ensure_ascii=not _is_utf8(), indent=2, default=str) + "\n")


def say(message: str) -> None:
    """Talk: one line on stderr."""
    _talk(f"{_safe(message)}\n")


def say_wrapped(message: str) -> None:
    """Talk: one line on stderr; on a terminal broken between words where it is too long."""
    say(terminal.folded(message, sys.stderr, indent=2) if sys.stderr.isatty() else message)


def warn(message: str) -> None:
    """Talk: one line on stderr that begins with ``kvboost: warning:``."""
    _talk(f"kvboost: warning: {_safe(message)}\n")


def fail(message: str, next_step: str | None, *, as_json: bool = False) -> None:
    """An error on stderr: ``kvboost: error: <fact>.`` and the next step, or both as one JSON object."""
    fact = " ".join(message.split()).removesuffix(".")
    if as_json:
        _talk(json.dumps({"error": fact, "next": next_step}) + "\n")
        return
    _talk(f"kvboost: error: {_safe(fact)}.\n" + (f"  next: {next_step}\n" if next_step else ""))


def render_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, data: bool = False) -> None:
    """Print a table, columns of numbers flush right; to stdout when it is ``data``."""
    draw(make_table(title, columns, rows, data=data), data=data)


def make_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, data: bool, edge: bool = True
) -> Table:
    """A table for one of the streams; on a terminal a long cell is broken into lines. ``edge``: with space around."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    is_terminal = _stream(data).isatty()
    shape = box.SIMPLE_HEAD if is_terminal and terminal.draws_unicode() else None
    table = Table(title=title or None, title_justify="left", title_style="bold", box=shape, pad_edge=False)
    table.show_edge = edge
    for i, column in enumerate(columns):
        is_numeric = all(row[i][:1].isdigit() or row[i] in ("", "-") for row in rows)
        table.add_column(column, justify="right" if is_numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(terminal.without_controls(cell) if is_terminal else cell) for cell in row))
    return table


def render_bar(
    segments: Sequence[tuple[str, float]], width: int = 60, *, marks: str = BAR_MARKS, data: bool = False
) -> None:
    """Print one horizontal bar, each segment's cells by its share, and a legend: colours on a terminal, else marks."""
    from rich.text import Text

    is_terminal = _stream(data).isatty()
    is_coloured = is_terminal and terminal.draws_unicode() and not os.environ.get("NO_COLOR")
    if is_terminal:
        width = min(width, max(terminal.columns(_stream(data)) - 4, 8))
    cells = bar_cells([value for _, value in segments], width)
    bar, legend = Text("  "), Text(" ")
    for i, ((name, _), count) in enumerate(zip(segments, cells, strict=True)):
        style = BAR_STYLES[i % len(BAR_STYLES)]
        mark = "\u2588" if is_coloured else marks[i % len(marks)]
        bar.append(mark * count, style=style)
        legend.append(f" {mark}", style=style).append(f" {name}")
    draw(Text("\n").join([bar, legend]), data)


def index_progress(*, quiet: bool) -> AbstractContextManager[Callable[[IndexProgress], None]]:
    """Gives a function that shows an ``IndexProgress``: redrawn in place on a terminal, else a plain line
    every few seconds and the last state at the end; nothing when ``quiet``.
    """
    from .running import progress

    return progress(
        "indexing", "indexed", describe_progress, lambda state: (state.bytes_done, state.bytes_total), quiet
    )


def step_progress(name: str, *, quiet: bool) -> AbstractContextManager[Callable[[StepProgress], None]]:
    """The same for a ``StepProgress`` of the work that ``name`` tells."""
    from .running import progress

    return progress(name, name, describe_steps, lambda state: (state.done, state.total), quiet)


def _safe(message: str) -> str:
    return terminal.without_controls(message) if sys.stderr.isatty() else message


def _is_utf8() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def _stream(data: bool) -> TextIO:
    return sys.stdout if data else sys.stderr


def draw(renderable: RenderableType, data: bool) -> None:
    """Print what rich can draw: to stdout when it is ``data``, without blanks at the ends of lines."""
    from rich.console import Console

    stream = _stream(data)
    width = None if stream.isatty() else PLAIN_WIDTH
    console = Console(file=stream, markup=False, highlight=False, width=width)
    with console.capture() as captured:
        console.print(renderable)
    text = "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"
    if data:
        write(text)
    else:
        _talk(text)


def _talk(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # its reader has gone, or its disk is full
        silence(sys.stderr)
