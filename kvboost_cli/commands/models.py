"""``kvboost models``: fetch and list the models that kvboost ships a recipe for."""

from typing import Annotated

import typer

from .pages import Page, Section

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the group to ``app``."""
    group = typer.Typer(help="Fetch and list models.", rich_markup_mode=None, cls=Section)
    group.command("pull", cls=Page)(pull)
    group.command("list", cls=Page)(list_)
    app.add_typer(group, name="models")


def pull(
    model: Annotated[str | None, typer.Argument(help="A catalog name or a hub id.")] = None,
    as_json: JsonFlag = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing.")] = False,
) -> None:
    """Fetch a model, once: the default one, or the one named."""
    from .. import console
    from ..model.catalog import CATALOG, DEFAULT_MODEL, resolve_model
    from ..model.pull import pull_model
    from ..settings import user_model_dir

    if model is None or model in CATALOG:
        for step in pull_model(CATALOG.get(model or "", DEFAULT_MODEL), user_model_dir()):
            if not quiet:
                console.say(step)
    found = resolve_model(model, user_model_dir())
    if as_json:
        console.write_json({"name": found.name, "path": str(found.path)})
    elif not quiet:
        console.write(f"{found.path}\n")


def list_(as_json: JsonFlag = False) -> None:
    """List the catalog, with the directory and size of what is pulled."""
    from dataclasses import asdict

    from .. import console
    from ..model.catalog import list_models
    from ..settings import user_model_dir

    listed = list_models(user_model_dir())
    if as_json:
        console.write_json({"models": [asdict(model) for model in listed]})
        return
    rows = [
        (
            model.name + (" (default)" if model.is_default else ""),
            f"{model.num_bytes / 1e6:.0f} MB" if model.num_bytes else "-",
            str(model.path or "not pulled"),
        )
        for model in listed
    ]
    console.render_table("", ("model", "size", "path"), rows, data=True)
