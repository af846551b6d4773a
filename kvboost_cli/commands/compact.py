"""``kvboost compact``: give space back to the disk. Needs no torch."""

from typing import TYPE_CHECKING

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from store import ChunkStore

    from ..pipelines.compaction import CompactReport


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("compact", cls=Page)(compact)


def compact(
    store: options.Store = None,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Rewrite the store's files without what was removed from them."""
    from .. import console

    with options.changing_store(options.load({"store": store}), no_wait=no_wait) as opened:
        report = run_compaction(opened, quiet=quiet)
    if as_json:
        console.write_json(to_json(report))
    elif not quiet:
        console.write_facts(to_text(report))


def run_compaction(store: "ChunkStore", *, quiet: bool) -> "CompactReport":
    """Compact a store whose writer lock is held, and show how far the check of its copy is."""
    from .. import console
    from ..pipelines.compaction import compact
    from ..progress import StepProgress

    total, done = store.stats().live_bytes, 0
    with console.step_progress("comparing the copy", quiet=quiet) as show:

        def add(num_bytes: int) -> None:
            nonlocal done
            done += num_bytes
            show(StepProgress(round(done / 1e6), round(total / 1e6), "MB"))

        return compact(store, add)


def to_json(report: "CompactReport") -> dict[str, object]:
    """Sizes in bytes, before and after."""
    return {
        "bytes": {"before": report.data.bytes_before, "after": report.data.bytes_after},
        "search_bytes": {"before": report.search.bytes_before, "after": report.search.bytes_after},
    }


def to_text(report: "CompactReport") -> str:
    """A line for each file."""
    rows = (("data.mdb", report.data), ("search.sqlite", report.search))
    return "".join(
        f"{name}: {sizes.bytes_before / 1e6:,.1f} MB before, {sizes.bytes_after / 1e6:,.1f} MB now\n"
        for name, sizes in rows
    )
