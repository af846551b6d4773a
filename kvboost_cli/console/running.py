"""Progress on stderr: redrawn in one place of a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from .. import terminal
from ..progress import Describe, State
from . import say

PLAIN_INTERVAL_S = 5.0
FACTS_COLUMNS = 64
"""What a line of progress says takes so many; a bar gets the rest."""

MIN_BAR_COLUMNS = 8


@contextmanager
def progress(
    doing: str, done: str, describe: Describe[State], extent: Callable[[State], tuple[int, int]], quiet: bool
) -> Iterator[Callable[[State], None]]:
    """Gives a function that shows a state: redrawn on a terminal, else a plain line now and then."""
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
