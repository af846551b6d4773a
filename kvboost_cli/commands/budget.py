"""``kvboost budget``: how much a store may take on disk. Needs no torch."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from store import Budget, ChunkStore

    from ..pipelines.budget import BudgetReport


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("budget", cls=Page)(budget)


def budget(
    size: Annotated[
        str | None, typer.Argument(metavar="SIZE|none", help="All that the store may take, such as 20GB.")
    ] = None,
    keep_free: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What has to stay free on the disk; 500MB, if not given.")
    ] = None,
    store: options.Store = None,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show how much the store may take on disk, or set it: what matters least gives way."""
    from .. import console
    from ..pipelines.budget import look_at_budget
    from ..pipelines.workspace import open_store

    settings = options.load({"store": store})
    if size is None and keep_free is None:
        with open_store(settings.store_dir, readonly=True) as opened:
            report = look_at_budget(opened)
    else:
        with options.changing_store(settings, no_wait=no_wait) as opened:
            set_limits(opened, size, keep_free, quiet=quiet)
            report = look_at_budget(opened)
    if as_json:
        console.write_json(_to_json(report))
    elif not quiet:
        console.write_facts(_to_text(report))


def read_budget(size: str | None, keep_free: str | None, old: "Budget") -> "Budget":
    """The budget that options ask for. Raises ``SettingsError``, ``BudgetRefused``."""
    from ..pipelines.budget import make_budget
    from ..settings import parse_bytes

    keep_free_bytes = None if keep_free is None else parse_bytes("--keep-free", keep_free, least=0)
    if size is None or size == "none":
        return make_budget("none" if size else None, keep_free_bytes, old)
    return make_budget(parse_bytes("the budget", size), keep_free_bytes, old)


def set_limits(store: "ChunkStore", size: str | None, keep_free: str | None, *, quiet: bool) -> None:
    """Set the budget of a store whose writer lock is held, drop what does not fit, and give the space back."""
    from store import budget_of, is_within_budget, set_budget

    from .compact import run_compaction

    set_budget(store, read_budget(size, keep_free, budget_of(store)))
    if not is_within_budget(store):
        run_compaction(store, quiet=quiet)


def _to_json(report: "BudgetReport") -> dict[str, object]:
    limits, stats, evicted = report.budget, report.stats, report.evicted
    return {
        "budget": limits.limit_bytes,
        "keep_free": limits.keep_free_bytes,
        "disk": stats.disk_bytes,
        "live": stats.live_bytes,
        "chunks": {"stored": stats.num_chunks, "evicted": stats.num_evicted},
        "evictions": {"records": evicted.num_records, "bytes": evicted.num_bytes},
        "pinned": list(report.pinned),
    }


def _to_text(report: "BudgetReport") -> str:
    limits, stats, evicted = report.budget, report.stats, report.evicted
    told = "none" if limits.limit_bytes is None else f"{limits.limit_bytes / 1e6:,.1f} MB"
    lines = [f"budget: {told}; on disk: {stats.disk_bytes / 1e6:,.1f} MB, {stats.live_bytes / 1e6:,.1f} MB of it live"]
    if limits.keep_free_bytes:
        lines.append(f"kept free on the disk: {limits.keep_free_bytes / 1e6:,.1f} MB")
    lines.append(f"chunks: {stats.num_chunks:,} stored, {stats.num_evicted:,} evicted; questions bring them back")
    lines.append(f"evictions so far: {evicted.num_records:,} records, {evicted.num_bytes / 1e6:,.1f} MB")
    lines.extend(f"pinned: {name}" for name in report.pinned)
    return "\n".join(lines) + "\n"
