"""``kvboost plan``: what KV caches take, in memory and in the store, and what indexing would cost. Computes nothing."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import options, plan_output
from .pages import Page

if TYPE_CHECKING:
    from ..pipelines.capacity import Capacity, Subject
    from ..pipelines.outlook import Collection
    from ..settings import Settings

DEFAULT_CONTEXT = 4096
ALL_BITS = (16, 8, 4)
MODEL = "What is planned"
"""A group of options in the help."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("plan", cls=Page)(plan)


def plan(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Documents that might be indexed.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M", help="A directory, a config.json, a catalog name or a cached hub id.", rich_help_panel=MODEL
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Instead of --model: its layers,", rich_help_panel=MODEL)
    ] = None,
    kv_heads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="key-value heads,", rich_help_panel=MODEL)
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="and size of a head.", rich_help_panel=MODEL)
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens of the prompt; else the model's context.", rich_help_panel=MODEL),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            metavar="B", min=1, max=64, help="Bits per stored number; else 16, 8 and 4.", rich_help_panel=MODEL
        ),
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--no-exact", help="Whether documents are kept exact, too.", rich_help_panel=options.DOCUMENTS
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="How much fits this, such as 500MB or 2GiB.", rich_help_panel=MODEL),
    ] = None,
    glob: options.Glob = None,
    exclude: options.Exclude = None,
    store: options.Store = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell the memory of a KV cache, how much fits a budget, and what documents will cost to index."""
    from .. import console
    from ..settings import parse_bytes

    _check(paths or [], model, (layers, kv_heads, head_dim), bits)
    budget_bytes = None if budget is None else parse_bytes("--budget", budget)
    settings = options.load({"store": store, "model": model, "exact": exact, "bits": bits if paths else None})
    subject = _named_sizes(layers, kv_heads, head_dim) or _known_model(settings)
    collection = _look_through(settings, paths, glob or [], exclude or []) if paths else None
    capacity = _plan(settings, subject, context, bits, budget_bytes, collection)
    if as_json:
        console.write_json(capacity.to_json())
    else:
        plan_output.show(capacity)


def _check(paths: list[str], model: str | None, sizes: tuple[int | None, ...], bits: int | None) -> None:
    given = [size for size in sizes if size is not None]
    if given and len(given) < len(sizes):
        raise typer.BadParameter("give --layers, --kv-heads and --head-dim together")
    if given and (model is not None or paths):
        raise typer.BadParameter("sizes stand for a model that is not here: leave out --model and PATH")
    if paths and bits is not None and bits not in ALL_BITS:
        raise typer.BadParameter(f"the store keeps 4, 8 or 16 bits, not {bits}", param_hint="'--bits'")


def _named_sizes(layers: int | None, kv_heads: int | None, head_dim: int | None) -> "Subject | None":
    from ..pipelines.capacity import subject_of_sizes

    if layers is None or kv_heads is None or head_dim is None:
        return None
    return subject_of_sizes(layers, kv_heads, head_dim)


def _known_model(settings: "Settings") -> "Subject":
    """The model that was named, else the store's, else the default one."""
    from ..model.cache_shape import read_config
    from ..model.find_config import find_config
    from ..pipelines.capacity import read_subject
    from ..pipelines.workspace import MODEL_FACT, stored_facts
    from ..settings import user_model_dir

    stored = stored_facts(settings.store_dir).get(MODEL_FACT)
    found = find_config(settings.model or (stored and str(stored)) or None, user_model_dir())
    return read_subject(found.name, read_config(found.path))


def _look_through(settings: "Settings", paths: list[str], globs: list[str], excludes: list[str]) -> "Collection":
    """A dry run of ``kvboost index``, as if the store had the settings of this plan."""
    from ..pipelines.indexing import IndexRequest
    from ..pipelines.outlook import look_through

    with options.borrow_workspace(settings, force=True) as workspace:
        return look_through(workspace, IndexRequest(paths, (), globs, excludes, dry_run=True))


def _plan(
    settings: "Settings",
    subject: "Subject",
    context: int | None,
    bits: int | None,
    budget: int | None,
    collection: "Collection | None",
) -> "Capacity":
    from ..pipelines.capacity import plan_capacity
    from ..pipelines.recipe import DEFAULT_EXACT
    from ..pipelines.workspace import stored_facts

    exact = settings.exact if settings.exact is not None else stored_facts(settings.store_dir).get("exact")
    return plan_capacity(
        subject,
        context=context or subject.shape.max_positions or DEFAULT_CONTEXT,
        all_bits=ALL_BITS if bits is None else (bits,),
        exact=DEFAULT_EXACT if exact is None else bool(exact),
        budget=budget,
        collection=collection,
    )
