"""Options that several commands share, and what they make: settings and an open workspace."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from . import complete

if TYPE_CHECKING:
    from store import ChunkStore

    from ..model.handle import ModelHandle
    from ..pipelines.workspace import Workspace
    from ..settings import Settings

PLACE, DOCUMENTS, OUTPUT = "Store and model", "Documents", "Output"
REPAIR, ANSWER = "Reuse and repair", "Answer"
"""Groups of options in the help of a command that has many."""

MAX_SEED = 2**63 - 1
"""The largest that torch takes for sure."""

Store = Annotated[str | None, typer.Option(metavar="DIR", help="The store's directory.", rich_help_panel=PLACE)]
Model = Annotated[
    str | None, typer.Option(metavar="M", help="A directory, a catalog name or a hub id.", rich_help_panel=PLACE)
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="auto|cuda|mps|cpu",
        help="Where to compute.",
        rich_help_panel=PLACE,
        autocompletion=complete.choices("auto", "cuda", "mps", "cpu"),
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="auto|bfloat16|float16|float32",
        help="What to compute in.",
        rich_help_panel=PLACE,
        autocompletion=complete.choices("auto", "bfloat16", "float16", "float32"),
    ),
]
Documents = Annotated[
    list[str] | None,
    typer.Option(
        "-d",
        "--document",
        metavar="DOC",
        help="A document, by path or the end of its path; repeat in prompt order (see --order).",
        rich_help_panel=DOCUMENTS,
        autocompletion=complete.documents,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(metavar="N", help="Without -d: how many documents to search out.", rich_help_panel=DOCUMENTS),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="given|score|exact",
        help="The documents' order: as given or found, by BM25, or the one with most exact tokens first.",
        rich_help_panel=DOCUMENTS,
        autocompletion=complete.choices("given", "score", "exact"),
    ),
]
Repair = Annotated[
    str | None,
    typer.Option(
        metavar="auto|none|selective|cacheblend|question",
        help="What to recompute.",
        rich_help_panel=REPAIR,
        autocompletion=complete.choices("auto", "none", "selective", "cacheblend", "question"),
    ),
]
Ratio = Annotated[
    float | None, typer.Option(metavar="R", help="Share of reused tokens to recompute.", rich_help_panel=REPAIR)
]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", help="Longest answer, in tokens.", rich_help_panel=ANSWER)]
Temperature = Annotated[float | None, typer.Option(metavar="T", help="0 is greedy.", rich_help_panel=ANSWER)]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=MAX_SEED, help="Seed for sampling, from 0.", rich_help_panel=ANSWER),
]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="The system message.", rich_help_panel=ANSWER)]
Report = Annotated[
    str | None,
    typer.Option(
        metavar="full|line|none",
        help="How much to tell about the time to first token.",
        rich_help_panel=OUTPUT,
        autocompletion=complete.choices("full", "line", "none"),
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no report.", rich_help_panel=OUTPUT)]
Glob = Annotated[
    list[str] | None,
    typer.Option(metavar="G", help="Only files that match; repeatable.", rich_help_panel=DOCUMENTS),
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="G", help="Not these files; repeatable.", rich_help_panel=DOCUMENTS)
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for another kvboost; exit with 75.")]


def load(flags: Mapping[str, object]) -> "Settings":
    """The settings with these flags over them."""
    from ..settings import load_settings

    return load_settings(flags)


def check_names(names: list[str] | None) -> list[str]:
    """What ``-d`` gave; a usage error if a name is empty."""
    if not all(names or ()):
        raise typer.BadParameter("a document's name is empty", param_hint="'-d'")
    return names or []


def names_a_file(names: Sequence[str]) -> bool:
    """Whether one of the names that ``-d`` gave is a file: a store may then be made, since it will hold something."""
    return any(os.path.isfile(os.path.expanduser(name)) for name in names)


def check_repair(ratio: float | None, settings: "Settings", *, no_cache: bool = False) -> None:
    """A usage error if a share is given of what is not repaired."""
    if ratio is not None and (settings.repair == "none" or no_cache):
        raise typer.BadParameter("there is nothing to repair; leave --ratio out", param_hint="'--ratio'")


def read_stdin() -> bytes:
    """All of standard input; a usage error if it is closed."""
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed", param_hint="'-'")
    return sys.stdin.buffer.read()


def writer_lock(store: "ChunkStore", *, no_wait: bool) -> AbstractContextManager[None]:
    """The right to change the store: one process has it, others wait and say so, or with ``no_wait`` give up."""
    from .. import console

    told = "another kvboost is at work on this store; waiting for it to end"
    return store.writer_lock(wait=not no_wait, on_wait=lambda: console.say(told))


@contextmanager
def changing_store(settings: "Settings", *, no_wait: bool) -> Iterator["ChunkStore"]:
    """The store that the settings name, for a command that changes it and needs no model."""
    from store import ChunkStore

    with ChunkStore.open(settings.store_dir) as store, writer_lock(store, no_wait=no_wait):
        yield store


def make_handle(settings: "Settings", model: str | None, dtype: str) -> "ModelHandle":
    """A handle for the model of that name (None: the default one) in that dtype."""
    from ..model.catalog import resolve_model
    from ..model.handle import ModelHandle
    from ..settings import user_cache_dir, user_model_dir

    resolved = resolve_model(model, user_model_dir())
    return ModelHandle(resolved.name, resolved.path, settings.device, dtype, user_cache_dir())


@contextmanager
def borrow_workspace(settings: "Settings", *, force: bool = False) -> Iterator["Workspace"]:
    """The workspace for a run that keeps nothing; where there is no store, one that is thrown away."""
    from dataclasses import replace
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from store import StoreNotFound

    with ExitStack() as stack:
        try:
            workspace = stack.enter_context(open_workspace(settings, force=force, readonly=True))
        except StoreNotFound:
            elsewhere = replace(settings, store=Path(stack.enter_context(TemporaryDirectory())) / "store")
            workspace = stack.enter_context(open_workspace(elsewhere, create=True))
        yield workspace


def open_workspace(
    settings: "Settings", *, create: bool = False, force: bool = False, readonly: bool = False
) -> AbstractContextManager["Workspace"]:
    """The workspace that the settings name."""
    from ..pipelines import workspace

    request = workspace.WorkspaceRequest(
        settings.store_dir,
        _absolute(settings.model),
        settings.dtype,
        settings.bits,
        settings.contexts,
        settings.exact,
    )
    return workspace.open_workspace(
        request,
        lambda model, dtype: make_handle(settings, model, dtype),
        create=create,
        force=force,
        readonly=readonly,
    )


def _absolute(model: str | None) -> str | None:
    """A model's directory as an absolute path, since a store remembers it; a catalog name or hub id as it is."""
    from pathlib import Path

    if model is None or not Path(model).expanduser().is_dir():
        return model
    return str(Path(model).expanduser().resolve())
