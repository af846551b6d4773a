"""Time to first token as a picture: seconds against the prompt's length, a line for each strategy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .picture import COLOURS, DPI, MARKERS, PAD_INCHES, TICKS_BETWEEN, save, style
from .ttft_results import SizeSummary, StrategySummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (6.4, 4.4)
FULL_PREFILL_COLOUR = "#444444"
KEY = "solid: measured; dotted, in the same colour: the floor; bars: 95 % intervals"


def draw_ttft(sizes: Sequence[SizeSummary], title: str, path: Path) -> None:
    """Write the picture to ``path``, whose suffix chooses the format."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ordered = sorted(sizes, key=lambda size: size.prompt_tokens)
    with style():
        figure = Figure(
            figsize=SIZE_INCHES, dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=PAD_INCHES, h_pad=PAD_INCHES)
        )
        figure.suptitle(f"{title}\n{KEY}", fontsize=9)
        axes = figure.subplots()
        _draw_full_prefill(axes, ordered)
        for number, strategy in enumerate(one.strategy for one in ordered[0].strategies):
            _draw_strategy(axes, ordered, strategy, COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)])
        _scale(axes, [size.prompt_tokens for size in ordered])
        save(figure, path)


def _draw_full_prefill(axes: "Axes", sizes: Sequence[SizeSummary]) -> None:
    times = [size.full_prefill_s for size in sizes]
    arms = [[one.value - one.low for one in times], [one.high - one.value for one in times]]
    axes.errorbar(
        [size.prompt_tokens for size in sizes], [one.value for one in times], yerr=arms, color=FULL_PREFILL_COLOUR,
        marker="X", markeredgecolor="white", markersize=8, capsize=2, label="full prefill",
    )  # fmt: skip


def _draw_strategy(axes: "Axes", sizes: Sequence[SizeSummary], strategy: str, colour: str, marker: str) -> None:
    lengths = [size.prompt_tokens for size in sizes]
    column: list[StrategySummary] = [one for size in sizes for one in size.strategies if one.strategy == strategy]
    times = [one.ttft_s for one in column]
    arms = [[one.value - one.low for one in times], [one.high - one.value for one in times]]
    axes.errorbar(
        lengths, [one.value for one in times], yerr=arms, color=colour, marker=marker, markeredgecolor="white",
        markersize=7, capsize=2, label=strategy,
    )  # fmt: skip
    axes.plot(lengths, [one.floor.total_s for one in column], color=colour, linestyle=":", marker=".", linewidth=1)


def _scale(axes: "Axes", lengths: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_locator(LogLocator(subs=TICKS_BETWEEN))
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted("{x:g}")
    axes.set_xlabel("prompt tokens")
    axes.set_ylabel("seconds")
    axes.grid(True, which="both", color="0.94", zorder=0)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8)
