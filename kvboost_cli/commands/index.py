"""``kvboost index``: compute the KV of documents once and keep it."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from . import gating, options
from .budget import read_budget, set_limits
from .index_output import summary
from .index_request import make_request
from .pages import Page

if TYPE_CHECKING:
    from ..pipelines.indexing import IndexEvent, IndexRequest
    from ..pipelines.tally import IndexTally
    from ..pipelines.workspace import Workspace
    from ..progress import IndexProgress
    from ..settings import Settings

ENCODING = "Encoding"
"""A group of options in the help."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("index", cls=Page)(index)


def index(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files, folders, globs; - is stdin.")
    ] = None,
    store: options.Store = None,
    model: options.Model = None,
    bits: Annotated[
        int | None,
        typer.Option(metavar="4|8|16", help="Bits per stored number; 16 is unquantized.", rich_help_panel=ENCODING),
    ] = None,
    contexts: Annotated[
        int | None,
        typer.Option(metavar="M", help="Contexts to average over; 0 encodes alone.", rich_help_panel=ENCODING),
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--no-exact",
            help="Keep documents exact, too, as they are when asked alone or first: half as much index time again at "
            "2 contexts, and twice the bytes.",
            rich_help_panel=ENCODING,
        ),
    ] = None,
    glob: options.Glob = None,
    exclude: options.Exclude = None,
    files_from: Annotated[
        str | None,
        typer.Option(metavar="F|-", help="Read paths from a file, one per line.", rich_help_panel=options.DOCUMENTS),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="K/N", help="Only the K-th of N shares of the documents.", rich_help_panel=options.DOCUMENTS
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="SIZE|none", help="How much the store may take on disk, such as 20GB; it is remembered."),
    ] = None,
    pin: Annotated[
        bool,
        typer.Option("--pin", help="Never drop these documents to keep the budget.", rich_help_panel=options.DOCUMENTS),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove documents that are gone below PATH.", rich_help_panel=options.DOCUMENTS),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done; change nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Read unchanged documents, too; accept new settings.")] = False,
    no_wait: options.NoWait = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Index documents: compute their KV cache, quantize it, keep it in the store.

    Run it again whenever documents change: only changed chunks are computed.
    """
    settings = options.load(
        {
            "store": store, "model": model, "bits": bits, "contexts": contexts, "exact": exact, "device": device,
            "dtype": dtype,
        }
    )  # fmt: skip
    _require_possible(budget, pin=pin, dry_run=dry_run)
    request = make_request(
        paths or [], glob or [], exclude or [], files_from, shard, prune=prune, force=force, dry_run=dry_run
    )
    tally = _run(settings, request, budget, pin=pin, quiet=quiet, no_wait=no_wait)
    _print(tally, as_json=as_json, quiet=quiet, dry_run=dry_run)
    if tally.num_failed:
        raise typer.Exit(3)


def _require_possible(budget: str | None, *, pin: bool, dry_run: bool) -> None:
    """Raise what is wrong with the budget before anything is done."""
    from store import Budget

    if dry_run and (pin or budget is not None):
        raise typer.BadParameter("a dry run sets no budget and pins nothing", param_hint="'--dry-run'")
    read_budget(budget, None, Budget())


def _run(
    settings: "Settings", request: "IndexRequest", budget: str | None, *, pin: bool, quiet: bool, no_wait: bool
) -> "IndexTally":
    from ..pipelines.folders import remember_run
    from ..pipelines.indexing import index_documents
    from ..pipelines.refreshing import folders_of

    started = perf_counter()
    with _opened(settings, request) as workspace, _locked(workspace, request, no_wait=no_wait):
        if budget is not None:
            set_limits(workspace.store, budget, None, quiet=quiet)
        if not request.dry_run:
            remember_run(workspace.store, folders_of(request))
        events = index_documents(workspace, request)
        if pin:
            events = _pinning(workspace, events)
        return follow(events, workspace, started, dry_run=request.dry_run, quiet=quiet)


def _pinning(workspace: "Workspace", events: Iterable["IndexEvent"]) -> Iterator["IndexEvent"]:
    """Pin each document as soon as it is stored."""
    from store import pin_documents

    from ..pipelines.writer import Indexed

    for event in events:
        if isinstance(event, Indexed):
            pin_documents(workspace.store, [event.name])
        yield event


def follow(
    events: Iterable["IndexEvent"], workspace: "Workspace", started: float, *, dry_run: bool = False, quiet: bool
) -> "IndexTally":
    """Count the events of a run that began at ``started``, by ``perf_counter``, and show how far it is."""
    from store import evicted_of

    from .. import console
    from ..documents import Skipped
    from ..pipelines.tally import IndexTally
    from ..pipelines.writer import Encoded

    tally, gate, before = IndexTally(), None, evicted_of(workspace.store)
    with console.index_progress(quiet=quiet) as show:
        for event in events:
            if isinstance(event, Encoded) and gate is None:  # the model is loaded, and hours may follow
                gate = gating.check_before_index(workspace, quiet=quiet)
            tally.add(event)
            if isinstance(event, Skipped) and event.failed:
                console.warn(f"skipped, {event.reason}: {event.path}")
            if tally.num_planned:
                show(_progress(tally))
        tally.seconds = perf_counter() - started - (0.0 if gate is None else gate.check_s)
        tally.count_evicted(before, evicted_of(workspace.store))
        _look_back_or_ahead(workspace, tally, dry_run=dry_run)
    return tally


def _look_back_or_ahead(workspace: "Workspace", tally: "IndexTally", *, dry_run: bool) -> None:
    """Keep how fast the run was, for estimates; or make one."""
    from ..pipelines import outlook, speeds

    if dry_run:
        tally.outlook = outlook.foresee(workspace, tally.cost)
    elif work := speeds.index_work(tally.tokens_encoded, tally.tokens_exact, workspace.recipe.contexts):
        handle = workspace.handle
        startup_s = handle.import_s + handle.load_s
        sample = speeds.make_sample(speeds.INDEXING, str(handle.device), work, tally.seconds - startup_s, startup_s)
        speeds.record_speed(workspace.store, sample)


def _opened(settings: "Settings", request: "IndexRequest") -> AbstractContextManager["Workspace"]:
    if request.dry_run:
        return options.borrow_workspace(settings, force=request.force)
    return options.open_workspace(settings, create=True, force=request.force)


def _locked(workspace: "Workspace", request: "IndexRequest", *, no_wait: bool) -> AbstractContextManager[None]:
    return nullcontext() if request.dry_run else options.writer_lock(workspace.store, no_wait=no_wait)


def _progress(tally: "IndexTally") -> "IndexProgress":
    from ..progress import IndexProgress

    return IndexProgress(
        documents_done=tally.num_done,
        documents_total=tally.num_planned,
        bytes_done=tally.bytes_done,
        bytes_total=tally.bytes_planned,
        chunks=tally.num_new_chunks + tally.num_reused_chunks,
        tokens=tally.tokens_encoded,
    )


def _print(tally: "IndexTally", *, as_json: bool, quiet: bool, dry_run: bool) -> None:
    from .. import console
    from ..pipelines.errors import NoDocuments

    found_any = bool(tally.num_documents or tally.changes["removed"] or tally.num_failed)
    if as_json and (found_any or tally.skipped or tally.num_elsewhere):
        console.write_json(tally.to_json())
    elif not quiet and (found_any or tally.skipped or tally.num_elsewhere):
        console.write_facts(summary(tally, dry_run=dry_run))
    if not found_any and not tally.num_elsewhere:
        raise NoDocuments("no document was found under the given paths")
