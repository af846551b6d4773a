"""Everything that kvboost prints: data on stdout, talk on stderr. The only module that imports rich.

On a terminal a table may be coloured and progress is redrawn (rich honours ``NO_COLOR``); elsewhere there are
plain lines without escape codes. rich is imported only when something is drawn. A reader that closes stdout
early is reported to the caller as ``BrokenPipeError``; a closed stderr never stops the work.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

from .. import terminal
from ..progress import Describe, IndexProgress, State, StepProgress, describe_progress, describe_steps
from ..sheet import bar_cells as bar_cells

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

PLAIN_INTERVAL_S = 5.0
PLAIN_WIDTH = 200  # wide enough that no path is cut where nobody sees a screen
MIN_COLUMNS = 20
FACTS_COLUMNS = 64
"""What a line of progress says takes so many; a bar gets the rest."""

MIN_BAR_COLUMNS = 8
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
    write(_folded(text, sys.stdout, indent) if sys.stdout.isatty() else text)


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
    say(_folded(message, sys.stderr, indent=2) if sys.stderr.isatty() else message)


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
    every ``PLAIN_INTERVAL_S`` and the last state at the end; nothing when ``quiet``.
    """
    return _progress(
        "indexing", "indexed", describe_progress, lambda state: (state.bytes_done, state.bytes_total), quiet
    )


def step_progress(name: str, *, quiet: bool) -> AbstractContextManager[Callable[[StepProgress], None]]:
    """The same for a ``StepProgress`` of the work that ``name`` tells."""
    return _progress(name, name, describe_steps, lambda state: (state.done, state.total), quiet)


@contextmanager
def _progress(
    doing: str, done: str, describe: Describe[State], extent: Callable[[State], tuple[int, int]], quiet: bool
) -> Iterator[Callable[[State], None]]:
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _live_progress(doing, describe, extent) as show:
            yield show
    else:
        with _plain_progress(doing, done, describe) as show:
            yield show


@contextmanager
def _live_progress(
    doing: str, describe: Describe[State], extent: Callable[[State], tuple[int, int]]
) -> Iterator[Callable[[State], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    start_s = time.monotonic()
    draws_unicode = terminal.draws_unicode()
    bar_width = min(24, terminal.columns(sys.stderr) - FACTS_COLUMNS)
    bar_column = (BarColumn(bar_width),) if draws_unicode and bar_width >= MIN_BAR_COLUMNS else ()
    overflow: Literal["ellipsis", "crop"] = "ellipsis" if draws_unicode else "crop"  # an ellipsis is no ASCII

    def text(template: str) -> TextColumn:
        return TextColumn(template, table_column=Column(no_wrap=True, overflow=overflow))

    columns = (text(doing), *bar_column, text("{task.fields[facts]}"))
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task(doing, total=None, facts="")

        def show(state: State) -> None:
            completed, total = extent(state)
            bar.update(task, total=total, completed=completed, facts=describe(state, time.monotonic() - start_s))

        yield show


@contextmanager
def _plain_progress(doing: str, done: str, describe: Describe[State]) -> Iterator[Callable[[State], None]]:
    start_s = shown_s = time.monotonic()
    latest: State | None = None

    def show(state: State) -> None:
        nonlocal latest, shown_s
        latest, now_s = state, time.monotonic()
        if now_s - shown_s >= PLAIN_INTERVAL_S:
            shown_s = now_s
            say(f"{doing}: {describe(state, now_s - start_s)}")

    yield show
    if latest is not None:
        say(f"{done}: {describe(latest, time.monotonic() - start_s)}")


def _folded(text: str, stream: TextIO, indent: int) -> str:
    """Words stay whole, paths and commands above all, and so do spaces at the beginning of a line."""
    columns = max(terminal.columns(stream) - 1, MIN_COLUMNS)
    fold = textwrap.TextWrapper(
        columns, subsequent_indent=" " * min(indent, columns // 3), break_long_words=False, break_on_hyphens=False
    )
    lines = (line if len(line) <= columns else fold.fill(line) for line in text.split("\n"))
    return "\n".join(lines)


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
    except BrokenPipeError:
        silence(sys.stderr)
