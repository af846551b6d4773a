"""The page itself: figures and charts in a template, whatever is a name in them escaped."""

from datetime import datetime
from functools import cache
from typing import BinaryIO

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ..pipelines.overview import Overview
from .charts import draw_days, draw_speedups, draw_times

BEGINNING = b"<!doctype html>\n<!-- kvboost stats -->\n"
LEAST_DRAWN = 2
"""Asks from which on a chart tells something."""

MOST_DAYS = 60


def is_page(file: BinaryIO) -> bool:
    """Whether the file begins as a page does, whatever follows."""
    return file.read(len(BEGINNING)) == BEGINNING


def render_page(overview: Overview, now: float, *, documents: bool) -> bytes:
    """The page, made at that Unix time; with ``documents`` all of them are listed."""
    text = _template().render(
        overview=overview,
        facts=overview.stats,
        charts=_charts(overview),
        listed=overview.documents if documents else (),
        most=max((one.holding.importance for one in overview.documents), default=0.0),
        now=now,
    )
    return BEGINNING + text.encode("utf-8", "backslashreplace")  # names may hold bytes that are no text


def _charts(overview: Overview) -> dict[str, str]:
    """Charts by their captions; those with too little to show are left out."""
    charts = {}
    if len(overview.recent) >= LEAST_DRAWN:
        charts["Time to first token of the latest asks"] = draw_times(overview.recent, overview.stats)
    if sum(ask.speedup is not None for ask in overview.recent) >= LEAST_DRAWN:
        charts["Speed-up over full prefill, latest asks"] = draw_speedups(overview.recent, overview.speedup.p50)
    if overview.days:
        charts["Where the tokens of prompts came from, by day"] = draw_days(overview.days[-MOST_DAYS:])
    return charts


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=_count, mb=_mb, ms=_ms, minute=_minute, day=_day)
    return environment.get_template("page.html")


def _count(value: int) -> str:
    return f"{value:,}"


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}"


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d")
