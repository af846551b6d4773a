"""``kvboost import``: take over documents with their KV from a bundle or another store. The model is not loaded."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from store import StoreIdentity

    from ..bundle import BundleReader
    from ..pipelines.importing import ImportRequest
    from ..pipelines.source import StoreSource
    from ..pipelines.transfers import ImportTally
    from ..pipelines.workspace import Workspace
    from ..settings import Settings

STDIN = "-"
Flags = Mapping[str, object]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("import", cls=Page)(import_)


def import_(
    source: Annotated[str, typer.Argument(metavar="FILE|DIR|-", help="A bundle, a store's directory, or - for stdin.")],
    store: options.Store = None,
    model: options.Model = None,
    replace_all: Annotated[
        bool, typer.Option("--replace", help="Replace documents of the same name, newer ones too.")
    ] = False,
    keep_paths: Annotated[
        bool, typer.Option("--keep-paths", help="Keep a bundle's absolute paths: only for a bundle of your own.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all and tell what would be done.")] = False,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Take over documents with their KV from a bundle or another store; nothing is encoded.

    A bundle is checked to its end before anything is written.
    """
    from .. import console
    from ..pipelines.importing import ImportRequest

    request = ImportRequest(replace=replace_all, keep_paths=keep_paths, dry_run=dry_run)
    tally = _run({"store": store, "model": model, "dtype": dtype}, source, request, quiet=quiet)
    if as_json:
        console.write_json(tally.to_json(source))
    elif not quiet:
        console.write_facts(_summary(tally, dry_run=dry_run))
    if tally.skipped:
        raise typer.Exit(3)


def _run(flags: Flags, named: str, request: "ImportRequest", *, quiet: bool) -> "ImportTally":
    from .. import console
    from ..documents import Skipped
    from ..pipelines.importing import import_documents
    from ..pipelines.transfers import ImportTally
    from ..progress import StepProgress

    tally, started, settings = ImportTally(), perf_counter(), options.load(flags)
    with _opened_source(named, settings) as (source, num_documents):
        settings = _like_source(flags, settings, source.identity)
        _check(settings, named, source, num_documents, quiet=quiet)
        with (
            _opened_target(settings, request) as workspace,
            _locked(workspace, request),
            console.step_progress("import", quiet=quiet) as show,
        ):
            for event in import_documents(workspace, source, request):
                tally.add(event)
                show(StepProgress(tally.num_done, num_documents, "documents"))
                if isinstance(event, Skipped):
                    console.warn(f"left out, {event.reason}: {event.path}")
    tally.seconds = perf_counter() - started
    return tally


@contextmanager
def _opened_source(named: str, settings: "Settings") -> "Iterator[tuple[BundleReader | StoreSource, int]]":
    """What to import from, and how many documents it has."""
    from ..bundle import BundleReader
    from ..pipelines.importing import require_other_store
    from ..pipelines.source import StoreSource
    from ..pipelines.workspace import open_store

    with ExitStack() as stack:
        path = Path(named).expanduser()
        if named != STDIN and path.is_dir():
            opened = stack.enter_context(open_store(path, readonly=True))
            require_other_store(settings.store_dir, opened)
            stored = StoreSource(opened)
            yield stored, stored.num_documents
        else:
            reader = BundleReader(stack.enter_context(_opened_file(named, path)), named)
            yield reader, reader.frames.totals.num_documents


def _opened_file(named: str, path: Path) -> AbstractContextManager[BinaryIO]:
    """A bundle that can be sought in: standard input is kept in a temporary file without a name."""
    import shutil
    import tempfile

    if named != STDIN:
        return open(path, "rb")
    if sys.stdin is None or os.isatty(sys.stdin.fileno()):
        raise typer.BadParameter("standard input is closed or a terminal", param_hint="'-'")
    kept = tempfile.TemporaryFile()  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, kept)
    return kept


def _like_source(flags: Flags, settings: "Settings", identity: "StoreIdentity") -> "Settings":
    """The settings for a store that has to be made first: those of the source, where the user has set none."""
    from store import StoreNotFound

    from ..pipelines.workspace import open_store

    try:
        open_store(settings.store_dir, readonly=True).close()
        return settings
    except StoreNotFound:
        unset = [name for name in ("bits", "contexts", "exact", "model") if getattr(settings, name) is None]
    if settings.dtype == "auto":
        unset.append("dtype")
    return options.load({**flags, **{name: identity.recipe_text.get(name) for name in unset}})


def _check(
    settings: "Settings", named: str, source: "BundleReader | StoreSource", num_documents: int, *, quiet: bool
) -> None:
    """Whose KV it is, and of a bundle everything: before a store is made or written."""
    from .. import console
    from ..bundle import BundleReader
    from ..pipelines.importing import audit_bundle, require_same_identity
    from ..pipelines.rules import record_rules
    from ..progress import StepProgress

    with options.borrow_workspace(settings) as workspace:
        require_same_identity(named, source.identity, workspace.store.identity)
        if not isinstance(source, BundleReader):
            return
        with console.step_progress("check", quiet=quiet) as show:
            for audited in audit_bundle(source, record_rules(workspace)):
                show(StepProgress(audited.num_documents, num_documents, "documents"))


def _opened_target(settings: "Settings", request: "ImportRequest") -> AbstractContextManager["Workspace"]:
    if request.dry_run:
        return options.borrow_workspace(settings)
    return options.open_workspace(settings, create=True)


def _locked(workspace: "Workspace", request: "ImportRequest") -> AbstractContextManager[None]:
    from .. import console

    if request.dry_run:
        return nullcontext()
    return workspace.store.writer_lock(
        on_wait=lambda: console.say("another kvboost is writing into this store; waiting for it to end")
    )


def _summary(tally: "ImportTally", *, dry_run: bool) -> str:
    changes = ", ".join(f"{count:,} {change}" for change, count in tally.changes.items() if count)
    lines = [f"documents: {changes or 'none'}, {len(tally.skipped):,} left out"]
    lines.append(f"records: {tally.num_new_records:,} new, {tally.num_reused_records:,} already stored")
    if dry_run:
        lines.append("dry run: all was checked; nothing was written")
    elif tally.bytes_written:
        lines.append(f"written: {tally.bytes_written / 1e6:,.1f} MB in {tally.seconds:.1f} s")
    return "\n".join(lines) + "\n"
