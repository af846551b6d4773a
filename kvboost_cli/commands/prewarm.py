"""``kvboost prewarm``: what the next asks will need, computed before they come. Made for cron."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from . import durations, options, prewarm_output
from .index import follow
from .pages import Page

if TYPE_CHECKING:
    from store import ChunkStore

    from ..pipelines.chains import ChainPlan, MadeChains
    from ..pipelines.compaction import CompactReport
    from ..pipelines.refreshing import Deadline
    from ..pipelines.warming import Warmed
    from ..pipelines.workspace import Workspace
    from ..settings import Settings
    from .prewarm_output import Prewarmed

DEFAULT_TOP = 20


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    top: int
    deadline: "Deadline"
    page_cache: bool
    ignored: tuple[str, ...]
    dry_run: bool
    as_json: bool
    quiet: bool


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("prewarm", cls=Page)(prewarm)


def prewarm(
    store: options.Store = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=0, help="Make the N orders exact that are asked most; drop others.")
    ] = DEFAULT_TOP,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin nothing more after this time, such as 90s, 10m, 2h.")
    ] = None,
    page_cache: Annotated[
        bool, typer.Option("--page-cache", help="Read what is asked for most, so that it is in memory.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="From now on leave this folder alone; its documents stay; repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done; change nothing.")] = False,
    log: Annotated[str | None, typer.Option(metavar="FILE", help="Print into a file, which is rotated.")] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Bring the store up to date, and make what is asked most exact before it is asked again.

    Exits with 75 if another kvboost is changing the store. Asks do not wait for it.
    """
    started = perf_counter()
    settings = options.load({"store": store, "device": device, "dtype": dtype})
    if ignore and dry_run:
        raise typer.BadParameter("a dry run changes nothing; leave out one of the two", param_hint="'--ignore'")
    wanted = Wanted(top, _deadline(max_time), page_cache, tuple(ignore or ()), dry_run, as_json, quiet)
    if log is not None:
        _start_log(log, settings)
    prewarmed = _run(settings, wanted, started)
    prewarm_output.finish(prewarmed, as_json=as_json, quiet=quiet, dry_run=dry_run)
    if prewarmed.tally.num_failed:
        raise typer.Exit(3)


def _deadline(max_time: str | None) -> "Deadline":
    from ..pipelines.refreshing import Deadline

    return Deadline(None if max_time is None else monotonic() + durations.parse_duration(max_time, "--max-time"))


def _start_log(path: str, settings: "Settings") -> None:
    from .. import console, logfile

    try:
        logfile.log_to(Path(path).expanduser())
    except OSError as error:
        raise typer.BadParameter(f"{error.strerror}: {path}", param_hint="'--log'") from error
    console.say(f"--- {datetime.now().astimezone().isoformat(timespec='seconds')} prewarm {settings.store_dir}")


def _run(settings: "Settings", wanted: Wanted, started: float) -> "Prewarmed":
    """All steps; a line is told as soon as its step is over."""
    from ..pipelines.chains import MadeChains, plan_chains
    from ..pipelines.refreshing import refresh_documents

    silent = wanted.quiet or wanted.as_json
    opened = options.open_workspace(settings, readonly=wanted.dry_run)
    with opened as workspace, _locked(workspace.store, wanted):
        _ignore(workspace.store, wanted.ignored)
        events = refresh_documents(workspace, wanted.deadline, dry_run=wanted.dry_run)
        tally = follow(events, workspace, started, quiet=silent)
        prewarm_output.tell_documents(tally, silent=silent, dry_run=wanted.dry_run)
        plan = plan_chains(workspace, wanted.top)
        made = MadeChains() if wanted.dry_run else _make_chains(workspace, plan, wanted, silent=silent)
        prewarm_output.tell_orders(plan, made, silent=silent, dry_run=wanted.dry_run)
        compacted = None if wanted.dry_run else _compact(workspace.store, silent=silent)
        warmed = _warm(workspace.store, plan, silent=silent) if wanted.page_cache and not wanted.dry_run else None
    return prewarm_output.Prewarmed(tally, plan, made, compacted, warmed, perf_counter() - started)


def _locked(store: "ChunkStore", wanted: Wanted) -> AbstractContextManager[None]:
    return nullcontext() if wanted.dry_run else options.writer_lock(store, no_wait=True)


def _ignore(store: "ChunkStore", paths: tuple[str, ...]) -> None:
    from .. import console
    from ..pipelines.folders import ignore_folder

    for path in paths:
        if not ignore_folder(store, path):
            console.warn(f"this folder was not looked through: {path}")


def _make_chains(workspace: "Workspace", plan: "ChainPlan", wanted: Wanted, *, silent: bool) -> "MadeChains":
    from .. import console
    from ..pipelines.chains import MadeChains, make_chains
    from ..progress import StepProgress

    made = MadeChains()
    with console.step_progress("making orders exact", quiet=silent) as show:
        for made in make_chains(workspace, plan, wanted.deadline):
            if plan.to_make:
                show(StepProgress(made.num_tried, len(plan.to_make), "orders"))
    return made


def _compact(store: "ChunkStore", *, silent: bool) -> "CompactReport | None":
    """Compact if that gives much back; a disk without room for the copy is no reason to fail every night."""
    from store import StoreFull

    from .. import console
    from ..pipelines.compaction import is_worthwhile
    from ..retrieval import SearchIndexBusy
    from .compact import run_compaction

    if not is_worthwhile(store):
        return None
    try:
        report = run_compaction(store, quiet=True)
    except (StoreFull, SearchIndexBusy) as error:
        console.warn(f"the store was not compacted: {error}")
        return None
    prewarm_output.tell_compaction(report, silent=silent)
    return report


def _warm(store: "ChunkStore", plan: "ChainPlan", *, silent: bool) -> "Warmed":
    """After compaction, which makes a file that is in no cache yet."""
    from .. import console
    from ..pipelines.warming import MEMORY_SHARE, available_bytes, warm_page_cache

    warmed = warm_page_cache(store, [*plan.made, *plan.to_make], int(MEMORY_SHARE * available_bytes()))
    if warmed.num_damaged:
        console.warn(f"records are damaged; `kvboost doctor --repair` drops them: {warmed.num_damaged}")
    prewarm_output.tell_warming(warmed, silent=silent)
    return warmed
