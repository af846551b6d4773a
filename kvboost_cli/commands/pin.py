"""``kvboost pin``: documents of which nothing is dropped to keep the budget. Needs no torch."""

from typing import Annotated

import typer

from . import complete, options
from .pages import Page


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("pin", cls=Page)(pin)


def pin(
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOC", help="Files, or ends of stored names.", autocompletion=complete.documents),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Unpin them.")] = False,
    store: options.Store = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Pin documents, so that nothing of them is dropped to keep the budget; without DOC, list those that are."""
    from store import ChunkStore, pinned_documents

    from .. import console
    from ..pipelines import budget
    from ..pipelines.workspace import open_store

    if remove and not documents:
        raise typer.BadParameter("name the documents to unpin", param_hint="'--remove'")
    settings = options.load({"store": store})
    with ChunkStore.open(settings.store_dir) if documents else open_store(settings.store_dir, readonly=True) as opened:
        changed = (budget.unpin if remove else budget.pin)(opened, documents) if documents else ()
        pinned = pinned_documents(opened)
    if as_json:
        console.write_json({"changed": list(changed), "pinned": pinned})
    elif not quiet:
        console.write_facts(_to_text(changed if documents else pinned, removed=remove) or "pinned: none\n")


def _to_text(names: "tuple[str, ...] | list[str]", *, removed: bool) -> str:
    word = "unpinned" if removed else "pinned"
    return "".join(f"{word}: {name}\n" for name in names)
