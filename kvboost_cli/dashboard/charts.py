"""The page's charts as SVG text: numbers and fixed words alone, no name of a document.

Colours stand for variables of the page's style sheet, so that the same chart suits a dark page and a light one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import StringIO
from typing import TYPE_CHECKING

from store import StoreStats

from ..pipelines.overview import AskFacts, DayFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (4.4, 2.6)
"""Small, so that letters stay readable on a page of 400 pixels."""

INK, GRID = "#010101", "#020202"
KINDS = {"exact": "#030303", "reused": "#040404", "repaired": "#050505", "prefilled": "#060606"}
VARIABLES = {
    INK: "var(--ink)",
    GRID: "var(--line)",
    **{colour: f"var(--{name})" for name, colour in KINDS.items()},
}
"""What no one draws with stands in the SVG, and the page's variable takes its place."""

_ID = re.compile(r'(\bid="|href="#|url\(#)')
_PROLOGUE = re.compile(r"\A.*?(?=<svg)|<metadata>.*?</metadata>", re.DOTALL)


def draw_times(asks: Sequence[AskFacts], stats: StoreStats) -> str:
    """TTFT of asks in their order, and the percentiles of all."""
    with _chart("times") as (axes, finish):
        axes.plot(
            range(1, len(asks) + 1),
            [ask.ttft_s * 1000 for ask in asks],
            "o-",
            color=KINDS["exact"],
            linewidth=1,
            markersize=4,
        )
        for name, value, dash in (("p50", stats.ttft_p50_s, "--"), ("p95", stats.ttft_p95_s, ":")):
            if value is not None:
                axes.axhline(value * 1000, color=INK, linestyle=dash, linewidth=1, label=f"{name} {value * 1000:,.0f}")
        _scale_asks(axes, "ms")
        return finish()


def draw_speedups(asks: Sequence[AskFacts], p50: float | None) -> str:
    """Speed-up of asks in their order, measured and estimated ones told apart."""
    places = [(place, ask) for place, ask in enumerate(asks, 1) if ask.speedup is not None]
    with _chart("speedups") as (axes, finish):
        for name, is_estimated, fill in (("measured", False, KINDS["exact"]), ("estimated", True, "none")):
            some = [(place, ask.speedup) for place, ask in places if ask.is_estimated is is_estimated]
            if some:
                axes.plot(*zip(*some, strict=True), "o", color=KINDS["exact"], markerfacecolor=fill, label=name)
        if p50 is not None:
            axes.axhline(p50, color=INK, linestyle="--", linewidth=1, label=f"p50 {p50:.1f}x")
        axes.axhline(1.0, color=GRID, linewidth=1)
        _scale_asks(axes, "times as fast")
        return finish()


def draw_days(days: Sequence[DayFacts]) -> str:
    """Tokens of prompts by day, in parts by where they came from."""
    with _chart("days") as (axes, finish):
        bottoms = [0] * len(days)
        for name, colour in KINDS.items():
            counts = [getattr(day, name) for day in days]
            axes.bar(range(len(days)), counts, 0.8, bottom=bottoms, color=colour, label=name)
            bottoms = [bottom + count for bottom, count in zip(bottoms, counts, strict=True)]
        step = max(1, len(days) // 5)
        axes.set_xticks(range(0, len(days), step), [f"{day.day:%m-%d}" for day in days[::step]])
        axes.set_xlim(-1, len(days))
        axes.set_ylabel("tokens")
        _finish_scale(axes)
        return finish()


def _scale_asks(axes: "Axes", unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("ask, the latest last")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish_scale(axes)


def _finish_scale(axes: "Axes") -> None:
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)


@contextmanager
def _chart(name: str) -> Iterator[tuple["Axes", Callable[[], str]]]:
    """Empty axes, and what gives their picture once they are drawn on."""
    from matplotlib.figure import Figure

    with _style(name):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.subplots()
        axes.patch.set_visible(False)

        def finish() -> str:
            with StringIO() as file:
                figure.savefig(file, format="svg", metadata={"Date": None})
                return _for_page(file.getvalue(), name)

        yield axes, finish


def _style(name: str) -> AbstractContextManager[None]:
    """What all charts look like; the same figures give the same picture."""
    from matplotlib import rc_context

    return rc_context(
        {
            "font.size": 9.0,
            "svg.fonttype": "none",  # letters as text, in the page's font
            "svg.hashsalt": name,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": GRID,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "text.color": INK,
            "grid.color": GRID,
            "grid.linewidth": 0.6,
        }
    )


def _for_page(svg: str, name: str) -> str:
    """A picture that can stand beside others in a page: with ids of its own, and colours of the page."""
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    return _ID.sub(rf"\g<1>{name}-", _PROLOGUE.sub("", svg))
