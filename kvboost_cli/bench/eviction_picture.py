"""Eviction as a picture: the share of recompute time that is saved against the budget, a line for each policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .eviction_results import PolicySummary
from .picture import COLOURS, DPI, MARKERS, PAD_INCHES, save, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_INCHES = (6.4, 4.4)
KEY = "bars: 95 % intervals over traces; higher is better"


def draw_eviction(summaries: Sequence[PolicySummary], title: str, path: Path) -> None:
    """Write the picture to ``path``, whose suffix chooses the format."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import PercentFormatter

    with style():
        layout = ConstrainedLayoutEngine(w_pad=PAD_INCHES, h_pad=PAD_INCHES)
        figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout=layout)
        figure.suptitle(f"{title}\n{KEY}", fontsize=9)
        axes = figure.subplots()
        for number, policy in enumerate(dict.fromkeys(summary.policy for summary in summaries)):
            line = sorted((one for one in summaries if one.policy == policy), key=lambda one: one.budget_share)
            _draw_policy(axes, line, COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)])
        axes.set_xlabel("budget, share of all records")
        axes.set_ylabel("recompute time saved")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.grid(True, color="0.94", zorder=0)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, fontsize=8)
        save(figure, path)


def _draw_policy(axes: "Axes", line: Sequence[PolicySummary], colour: str, marker: str) -> None:
    saved = [one.saved_share for one in line]
    axes.errorbar(
        [one.budget_share for one in line], [one.value for one in saved],
        yerr=[[one.value - one.low for one in saved], [one.high - one.value for one in saved]],
        label=line[0].policy, color=colour, marker=marker, markeredgecolor="white", markersize=7, capsize=2,
    )  # fmt: skip
