"""``kvboost stats``: what the store holds and what it earned. Needs no torch."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .durations import parse_duration
from .newfile import STDOUT, new_file
from .pages import Page

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..pipelines.overview import Overview

WATCH_INTERVAL = "2"
INTERRUPTED = 130

Seconds = Annotated[
    str | None, typer.Argument(metavar="SECONDS", help="With --watch: the time between two looks; 2, if not given.")
]
Documents = Annotated[bool, typer.Option("--documents", help="Also list every document, the hottest first.")]
Watch = Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")]
Html = Annotated[
    str | None, typer.Option(metavar="FILE|-", help="Write one page for a browser instead; - is stdout.")
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("stats", cls=Page)(stats)


def stats(
    seconds: Seconds = None,
    store: options.Store = None,
    documents: Documents = False,
    watch: Watch = False,
    html: Html = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what the store holds and how asks have used it."""
    from ..pipelines.overview import read_overview
    from ..pipelines.workspace import open_store

    _require_one_way(seconds, watch=watch, html=html, as_json=as_json)
    store_dir = options.load({"store": store}).store_dir

    def read() -> "Overview":
        """Opened anew each time: what is not looked at is not held."""
        with open_store(store_dir, readonly=True) as opened:
            return read_overview(opened, time.time())

    if html is not None:
        _write_page(html, read(), documents=documents, as_json=as_json)
    elif watch:
        _watch(read, parse_duration(seconds or WATCH_INTERVAL, "SECONDS"), documents=documents, as_json=as_json)
    else:
        _show(read(), documents=documents, as_json=as_json)


def _require_one_way(seconds: str | None, *, watch: bool, html: str | None, as_json: bool) -> None:
    if seconds is not None and not watch:
        raise typer.BadParameter(f"a time between two looks is for --watch: {seconds}")
    if html is not None and watch:
        raise typer.BadParameter("a page is of one moment: leave out --watch or --html")
    if html == STDOUT and (as_json or sys.stdout.isatty()):
        raise typer.BadParameter("the page goes to stdout; send it to a file or a pipe, without --json")


def _show(overview: "Overview", *, documents: bool, as_json: bool) -> None:
    from .. import console
    from ..console.sheets import render_sheet
    from .stats_json import to_json
    from .stats_output import all_parts

    if as_json:
        console.write_json(to_json(overview, documents=documents))
    else:
        render_sheet(all_parts(overview, documents=documents))


def _watch(read: "Callable[[], Overview]", interval_s: float, *, documents: bool, as_json: bool) -> None:
    """Look until Ctrl-C, which is how it is meant to end: no error is told."""
    from ..console.sheets import can_redraw

    try:
        if can_redraw() and not as_json:
            _redraw(read, interval_s, documents=documents)
        else:
            _repeat(read, interval_s, documents=documents, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _redraw(read: "Callable[[], Overview]", interval_s: float, *, documents: bool) -> None:
    from ..console.sheets import live_sheet
    from .stats_output import watched_parts

    first = read()  # an error is told on the screen that was there
    with live_sheet() as show:
        show(watched_parts(first, time.time(), documents=documents))
        while True:
            time.sleep(interval_s)
            show(watched_parts(read(), time.time(), documents=documents))


def _repeat(read: "Callable[[], Overview]", interval_s: float, *, documents: bool, as_json: bool) -> None:
    """One JSON object on a line, or one block of lines, at each look."""
    from .. import console
    from ..console.sheets import render_sheet
    from .stats_json import to_json
    from .stats_output import watched_parts

    while True:
        if as_json:
            console.write_json_line(to_json(read(), documents=documents))
        else:
            render_sheet(watched_parts(read(), time.time(), documents=documents))
            console.write("\n")
        time.sleep(interval_s)


def _write_page(file: str, overview: "Overview", *, documents: bool, as_json: bool) -> None:
    from .. import console
    from ..dashboard import is_page, render_page
    from .stats_json import to_json

    page = render_page(overview, time.time(), documents=documents)
    with new_file(file, "a page of stats", is_page) as target:
        target.write(page)
        target.flush()
    if as_json:
        console.write_json(to_json(overview, documents=documents))
    elif file != STDOUT:
        console.write_facts(f"written: {file}\n")
