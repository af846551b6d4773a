"""``kvboost bench eviction``: which records should give way? Needs no model, and no documents."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .bench_common import Repeats, Seed, take_aloud, until_interrupted

if TYPE_CHECKING:
    from ..bench.eviction_results import EvictionRequest, EvictionRun, PolicySummary
    from ..bench.replay import Replay

COLUMNS = ("budget", "policy", "hits", "time saved", "saved s", "more than LRU s", "evicted", "disk / budget")
MEMORY_FOLDER = Path("/dev/shm")
"""Stores of a run go there where it exists: decisions are measured, not a disk's flushes."""


def eviction(
    num_documents: Annotated[
        int, typer.Option("--documents", metavar="N", min=8, max=5000, help="Documents of a trace.")
    ] = 150,
    num_questions: Annotated[
        int, typer.Option("--questions", metavar="N", min=10, max=100_000, help="Questions of a trace.")
    ] = 600,
    skew: Annotated[
        float, typer.Option(metavar="S", min=0.0, max=3.0, help="How much more the popular ones are wanted.")
    ] = 1.0,
    budgets: Annotated[
        str, typer.Option(metavar="P,P,...", help="Budgets, in percent of all records' bytes.")
    ] = "25,50",
    tokens_per_s: Annotated[
        float, typer.Option(metavar="N", min=0.001, help="How fast missing tokens are computed.")
    ] = 1200.0,
    repeats: Repeats = 3,
    seed: Seed = 1,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw time saved by budget: .png or .svg.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Replay made-up traces of use on real stores with a budget, and compare what to drop first."""
    from ..bench.eviction_results import EvictionRequest
    from ..bench.picture import require_picture

    if plot is not None:
        require_picture(plot)
    request = EvictionRequest(num_documents, num_questions, skew, _shares(budgets), repeats, seed, tokens_per_s)
    run = _run(request, quiet=quiet)
    if run.summaries:
        _show(run, plot, as_json=as_json, quiet=quiet)
    if not run.complete:
        raise KeyboardInterrupt


def _shares(text: str) -> tuple[float, ...]:
    """``25,50`` as shares, once each and in order."""
    try:
        shares = dict.fromkeys(float(part) / 100 for part in text.split(","))
    except ValueError:
        shares = dict.fromkeys([0.0])
    if not all(0.01 <= share <= 1 for share in shares):
        raise typer.BadParameter(f"write percents from 1 to 100, as in 25,50, not: {text}", param_hint="'--budgets'")
    return tuple(shares)


def _run(request: "EvictionRequest", *, quiet: bool) -> "EvictionRun":
    from ..bench.eviction_results import EvictionRun
    from ..bench.replay import POLICIES

    started = perf_counter()
    replays: list[Replay] = []
    total = request.repeats * len(request.budgets) * len(POLICIES)
    with until_interrupted() as interruption:
        take_aloud(_replays(request), total, "replaying", replays, quiet=quiet)
    return EvictionRun(request, tuple(replays), perf_counter() - started, complete=not interruption.happened)


def _replays(request: "EvictionRequest") -> "Iterator[Replay]":
    from ..bench.replay import POLICIES, replay
    from ..bench.trace import TraceRequest, make_trace

    folder = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    for seed in request.seeds:
        trace = make_trace(TraceRequest(request.num_documents, request.num_questions, request.skew, seed))
        for share in request.budgets:
            for policy in POLICIES:
                with TemporaryDirectory(prefix="kvboost-bench-", dir=folder) as temporary:
                    yield replay(trace, policy, seed, share, Path(temporary))


def _show(run: "EvictionRun", plot: Path | None, *, as_json: bool, quiet: bool) -> None:
    from .. import console
    from ..bench.eviction_picture import draw_eviction

    if as_json:
        console.write_json(run.to_json())
    else:
        console.render_table("", COLUMNS, [_row(summary) for summary in run.summaries], data=True)
        if not quiet:
            console.say_wrapped(
                f"\nMeans over {run.request.repeats} traces of {run.request.num_questions:,} questions, with 95 % "
                "intervals. time saved: of what it takes to compute all that questions wanted. evicted: records. "
                "disk: the most that a store ever took."
            )
    if plot is not None:
        draw_eviction(run.summaries, f"What to drop first: {_describe(run.request)}", plot)
        if not quiet:
            console.say(f"drawn: {plot}")


def _row(summary: "PolicySummary") -> tuple[str, ...]:
    saved, gain = summary.saved_share, summary.gain_s
    return (
        f"{summary.budget_share:.0%}",
        summary.policy,
        f"{summary.hit_rate.value:.1%}",
        f"{saved.value:.1%} ({saved.low:.1%}-{saved.high:.1%})",
        f"{summary.saved_s.value:,.0f}",
        f"{gain.value:,.0f} ({gain.low:,.0f} to {gain.high:,.0f})",
        f"{summary.num_evicted:,.0f}",
        f"{summary.largest_share:.1%}",
    )


def _describe(request: "EvictionRequest") -> str:
    return f"{request.num_documents:,} documents, {request.num_questions:,} questions, skew {request.skew:g}"
