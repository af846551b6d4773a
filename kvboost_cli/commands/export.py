"""``kvboost export``: documents with their KV as one file. Needs no model."""

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from . import complete, options
from .newfile import STDOUT, new_file
from .pages import Page

if TYPE_CHECKING:
    from ..pipelines.transfers import ExportTally
    from ..settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("export", cls=Page)(export)


def export(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The bundle to write; - is stdout.")],
    documents: Annotated[
        list[str] | None,
        typer.Option(
            "-d",
            "--doc",
            metavar="DOC",
            help="Only this document; repeatable.",
            autocompletion=complete.documents,
        ),
    ] = None,
    store: options.Store = None,
    keep_paths: Annotated[
        bool, typer.Option("--keep-paths", help="Keep absolute paths as names, for your own machines.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write documents with their KV as one file, to be imported into another store."""
    from .. import console
    from ..bundle import starts_as_bundle

    if file == STDOUT and (as_json or sys.stdout.isatty()):
        raise typer.BadParameter("the bundle goes to stdout; send it to a file or a pipe, without --json")
    settings = options.load({"store": store})
    with new_file(file, "a bundle", starts_as_bundle) as target:
        tally = _run(settings, documents or [], target, keep_paths=keep_paths, quiet=quiet)
    if as_json:
        console.write_json(tally.to_json(file))
    elif not quiet:
        (console.say if file == STDOUT else lambda text: console.write_facts(f"{text}\n"))(_summary(tally))
    if tally.skipped:
        raise typer.Exit(3)


def _run(settings: "Settings", asked: list[str], target: BinaryIO, *, keep_paths: bool, quiet: bool) -> "ExportTally":
    from .. import console
    from ..documents import Skipped
    from ..pipelines.errors import NoDocuments
    from ..pipelines.exporting import export_documents, find_names
    from ..pipelines.source import StoreSource
    from ..pipelines.transfers import ExportTally
    from ..pipelines.workspace import open_store
    from ..progress import StepProgress

    tally, started = ExportTally(), perf_counter()
    with open_store(settings.store_dir, readonly=True) as opened, console.step_progress("export", quiet=quiet) as show:
        source = StoreSource(opened)
        names = find_names(opened, asked) if asked else None
        num_documents = source.num_documents if names is None else len(names)
        for event in export_documents(source, names, target, keep_paths=keep_paths):
            tally.add(event)
            show(StepProgress(tally.num_done, num_documents, "documents"))
            if isinstance(event, Skipped):
                console.warn(f"left out, {event.reason}: {event.path}")
    if not tally.num_documents:
        raise NoDocuments("there is no document to export")
    tally.seconds = perf_counter() - started
    return tally


def _summary(tally: "ExportTally") -> str:
    parts = [f"{tally.num_documents:,} documents ({tally.num_exact:,} of them exact)", f"{tally.num_records:,} records"]
    if tally.skipped:
        parts.append(f"{len(tally.skipped):,} left out")
    return f"exported: {', '.join(parts)}, {tally.num_bytes / 1e6:,.1f} MB in {tally.seconds:.1f} s"
