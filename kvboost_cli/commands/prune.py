"""``kvboost prune``: drop what the store holds for nothing. Needs no torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from store import ChunkStore

    from ..pipelines.pruning import Pruned, PrunePlan
    from ..settings import Settings

MAX_LISTED = 5


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("prune", cls=Page)(prune)


def prune(
    store: options.Store = None,
    missing_roots: Annotated[
        bool, typer.Option("--missing-roots", help="Remove documents of folders that are missing or empty, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be dropped; change nothing.")] = False,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Drop documents whose files are gone, records of earlier settings, and what no document names."""
    from .. import console
    from ..pipelines.pruning import plan_prune

    with _opened(options.load({"store": store}), dry_run=dry_run, no_wait=no_wait) as opened:
        plan = plan_prune(opened, with_missing_roots=missing_roots)
        pruned = _run(opened, plan, dry_run=dry_run, quiet=quiet)
    for root, count in pruned.plan.missing_roots.items():
        console.warn(
            f"a folder is missing or empty, and its {count:,} documents are kept without --missing-roots: {root}"
        )
    if as_json:
        console.write_json(_to_json(pruned))
    elif not quiet:
        console.write_facts(_to_text(pruned, dry_run=dry_run))


def _run(store: "ChunkStore", plan: "PrunePlan", *, dry_run: bool, quiet: bool) -> "Pruned":
    """Prune, and show how many records were looked at."""
    from store import num_counted

    from .. import console
    from ..pipelines.pruning import prune
    from ..progress import StepProgress

    total, done = num_counted(store), 0
    with console.step_progress("looking at records", quiet=quiet) as show:

        def add(num_records: int) -> None:
            nonlocal done
            done += num_records
            show(StepProgress(done, max(total, done), "records"))

        return prune(store, plan, dry_run=dry_run, on_look=add)


@contextmanager
def _opened(settings: "Settings", *, dry_run: bool, no_wait: bool) -> Iterator["ChunkStore"]:
    from ..pipelines.workspace import open_store

    if not dry_run:
        with options.changing_store(settings, no_wait=no_wait) as store:
            yield store
        return
    with open_store(settings.store_dir, readonly=True) as store:
        yield store


def _to_json(pruned: "Pruned") -> dict[str, object]:
    plan, total = pruned.plan, pruned.records + pruned.orphans
    return {
        "documents": {
            "gone": plan.gone,
            "superseded": plan.superseded,
            "missing_roots": [{"path": root, "documents": count} for root, count in plan.missing_roots.items()],
        },
        "records": total.num_records,
        "orphans": pruned.orphans.num_records,
        "usage": pruned.num_usage,
        "bytes": total.num_bytes,
    }


def _to_text(pruned: "Pruned", *, dry_run: bool) -> str:
    plan, total = pruned.plan, pruned.records + pruned.orphans
    lines = [
        f"documents: {len(plan.gone):,} removed, since their files are gone",
        f"documents: {len(plan.superseded):,} to be encoded anew, since they were made with other settings",
        f"records: {total.num_records:,} dropped, {total.num_bytes / 1e6:,.1f} MB; "
        f"no document named {pruned.orphans.num_records:,} of them",
    ]
    lines += [f"gone: {name}" for name in plan.gone[:MAX_LISTED]]
    if len(plan.gone) > MAX_LISTED:
        lines.append(f"gone: {len(plan.gone) - MAX_LISTED:,} more; --json lists them all")
    if dry_run:
        lines.append("dry run: nothing was changed")
    elif total.num_records:
        lines.append("their space is used again; `kvboost compact` gives it back to the disk")
    return "\n".join(lines) + "\n"
