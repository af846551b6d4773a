"""The frontier as a picture: KL against TTFT, one panel per task; and what all pictures share."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from errno import ENOTDIR
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UnknownPicture
from .intervals import Interval
from .labels import Box, Point, place_labels
from .summary import TaskSummary
from .variants import BASELINE, label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

SUFFIXES = (".png", ".svg")
MAX_COLUMNS = 3
PANEL_INCHES = (4.6, 3.9)
TITLE_INCHES = 0.7
DPI = 160
PAD_INCHES = 0.1
KEY = "bars: 95 % intervals; grey: the frontier; lower left is better"
TICKS_BETWEEN = (2.0, 3.0, 5.0)
"""Of the powers of ten, that have a number of their own."""

LEAST_KL = 1e-7
"""What a logarithmic axis shows for a KL of 0."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#7570b3")
"""Told apart by colour-blind readers, too (after Okabe and Ito)."""

MARKERS = "osD^vP*h"
BASELINE_LOOK = ("#444444", "X")
MARKER_PIXELS, BAR_PIXELS = 16.0, 4.0
Look = tuple[str, str]
"""Colour and marker."""


@dataclass(frozen=True)
class Shown:
    """A variant's place in a panel: TTFT as a share of full prefill's, and KL."""

    variant: str
    ttft: Interval
    kl: Interval


def require_picture(path: Path) -> None:
    """Raise ``UnknownPicture`` unless the suffix names a format, or ``NotADirectoryError`` if it has no folder."""
    if path.suffix.lower() not in SUFFIXES:
        raise UnknownPicture(f"a picture's name ends in {' or '.join(SUFFIXES)}, and not as: {path}")
    if not path.parent.is_dir():
        raise NotADirectoryError(ENOTDIR, "the picture's folder is not there", str(path.parent))


def draw_frontier(tasks: Sequence[TaskSummary], title: str, path: Path) -> None:
    """Write the picture to ``path``, whose suffix chooses the format."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = 2 if len(tasks) == 4 else min(MAX_COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    looks = _looks(tasks)
    with style():
        size = (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + TITLE_INCHES)
        figure = Figure(figsize=size, dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=PAD_INCHES, h_pad=PAD_INCHES))
        figure.suptitle(f"{title}\n{KEY}", fontsize=9)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, task in zip_longest(panels, tasks):
            if task is None:
                axes.set_axis_off()
            else:
                _draw_panel(axes, task, looks)
        figure.draw_without_rendering()  # from here on the panels have their places
        for axes, task in zip(panels, tasks, strict=False):
            _write_labels(axes, _shown(task), looks)
        save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    """Write a picture; the same one gives the same file."""
    figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def style() -> AbstractContextManager[None]:
    """What all pictures look like."""
    from matplotlib import rc_context

    return rc_context(
        {
            "font.size": 9.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.hashsalt": "kvboost",  # the same run gives the same file
        }
    )


def _looks(tasks: Sequence[TaskSummary]) -> dict[str, Look]:
    """Colour and marker of each variant, the same in all panels."""
    names = dict.fromkeys(variant.variant for task in tasks for variant in task.variants)
    others = [name for name in names if name != BASELINE.name]
    looks = {name: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(others)}
    return looks | {BASELINE.name: BASELINE_LOOK}


def _shown(task: TaskSummary) -> list[Shown]:
    return [
        Shown(variant.variant, variant.ttft_ratio, _above_zero(variant.kl_mean))
        for variant in task.variants
        if variant.ttft_ratio is not None
    ]


def _above_zero(kl: Interval) -> Interval:
    return Interval(*(max(LEAST_KL, value) for value in (kl.value, kl.low, kl.high)))


def _draw_panel(axes: "Axes", task: TaskSummary, looks: Mapping[str, Look]) -> None:
    shown = _shown(task)
    edge = frontier([(one.ttft.value, one.kl.value) for one in shown])
    axes.set_yscale("log")
    axes.step(*zip(*edge, strict=True), where="post", color="0.86", linewidth=4, zorder=1)
    for one in shown:
        colour, marker = looks[one.variant]
        axes.errorbar(
            one.ttft.value, one.kl.value, xerr=_arms(one.ttft), yerr=_arms(one.kl),
            color=colour, marker=marker, markersize=7, markeredgecolor="white", elinewidth=1, capsize=2, zorder=3,
        )  # fmt: skip
    axes.set_title(f"{task.task}: {task.num_prompts} prompts of {task.prompt_tokens:,.0f} tokens", fontsize=9.5)
    _scale(axes, max(one.ttft.high for one in shown))


def _scale(axes: "Axes", largest_ttft: float) -> None:
    from matplotlib.ticker import LogLocator, PercentFormatter

    axes.set_xlabel("TTFT, share of full prefill's")
    axes.set_xlim(0, 1.12 * largest_ttft)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("KL from full prefill (nats per token)")
    axes.margins(y=0.15)
    axes.yaxis.set_minor_locator(LogLocator(subs=TICKS_BETWEEN))
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted("{x:g}")
    axes.grid(True, which="both", color="0.94", zorder=0)
    axes.set_axisbelow(True)


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other beats in both numbers, from left to right.

    >>> frontier([(1.0, 5.0), (2.0, 6.0), (3.0, 1.0)])
    [(1.0, 5.0), (3.0, 1.0)]
    """
    edge: list[tuple[float, float]] = []
    for point in sorted(points):
        if not edge or point[1] < edge[-1][1]:
            edge.append(point)
    return edge


def _arms(found: Interval) -> list[list[float]]:
    """Lengths of an error bar's two arms: [[down], [up]]."""
    return [[max(0.0, found.value - found.low)], [max(0.0, found.high - found.value)]]


def _write_labels(axes: "Axes", shown: Sequence[Shown], looks: Mapping[str, Look]) -> None:
    """Write each variant's name beside its point, where it covers least."""
    figure = axes.figure
    texts = [
        figure.text(0, 0, label_of(one.variant), color=looks[one.variant][0], fontsize=8, in_layout=False)
        for one in shown
    ]
    sizes = [text.get_window_extent() for text in texts]
    spots = [axes.transData.transform((one.ttft.value, one.kl.value)) for one in shown]
    points = [Point(float(x), float(y), size.width, size.height) for (x, y), size in zip(spots, sizes, strict=True)]
    drawn = [box for one in shown for box in _drawn(axes, one)]
    for text, box in zip(texts, place_labels(points, drawn, _box(axes.get_window_extent())), strict=True):
        x, y = figure.transFigure.inverted().transform((box.left, box.bottom))  # pixels differ between formats
        text.set_position((float(x), float(y)))


def _drawn(axes: "Axes", one: Shown) -> list[Box]:
    """What a variant's marker and bars cover, in pixels."""
    (left, bottom), (x, y), (right, top) = axes.transData.transform(
        [(one.ttft.low, one.kl.low), (one.ttft.value, one.kl.value), (one.ttft.high, one.kl.high)]
    )
    return [
        Box(x - MARKER_PIXELS / 2, y - MARKER_PIXELS / 2, MARKER_PIXELS, MARKER_PIXELS),
        Box(left, y - BAR_PIXELS / 2, right - left, BAR_PIXELS),
        Box(x - BAR_PIXELS / 2, bottom, BAR_PIXELS, top - bottom),
    ]


def _box(extent: "Bbox") -> Box:
    return Box(extent.x0, extent.y0, extent.width, extent.height)
