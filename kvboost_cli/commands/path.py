"""``kvboost path``: where kvboost keeps its things."""

from typing import Annotated

import typer

from .pages import Page


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("path", cls=Page)(path)


def path(
    store: Annotated[str | None, typer.Option(metavar="DIR", help="The store's directory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show where the store, models, cache, settings and lines of chats are."""
    from pathlib import Path

    from .. import console, settings

    places = {
        "store": settings.load_settings({"store": store}).store_dir,
        "models": settings.user_model_dir(),
        "cache": settings.user_cache_dir(),
        "user_config": settings.user_config_file(),
        "project_config": settings.find_project_file(Path.cwd()),
        "chat_history": settings.chat_history_file(),
    }
    if as_json:
        console.write_json({name: place and str(place) for name, place in places.items()})
    else:
        console.write_facts("".join(f"{name}: {place or '-'}\n" for name, place in places.items()))
