"""``kvboost history``: which documents were asked together, in which order. Needs no torch."""

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .pages import Page, Section

if TYPE_CHECKING:
    from pathlib import Path

    from store import AskEntry

DEFAULT_LIMIT = 20


def register(app: typer.Typer) -> None:
    """Add the group to ``app``."""
    group = typer.Typer(
        help="Show past asks, which prewarm goes by, or clear them.",
        rich_markup_mode=None,
        invoke_without_command=True,
        cls=Section,
    )
    group.callback()(history)
    group.command("clear", cls=Page)(clear)
    app.add_typer(group, name="history")


def history(
    context: typer.Context,
    store: options.Store = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="The latest N asks; at most 1,000 are kept.")
    ] = DEFAULT_LIMIT,
    as_json: options.AsJson = False,
) -> None:
    """Show past asks: their documents in order, and what their answers took. Questions and answers are not kept."""
    from store import list_asks

    from .. import console
    from ..pipelines.workspace import open_store

    if context.invoked_subcommand is not None:
        if store is not None or as_json or limit != DEFAULT_LIMIT:  # else `clear` would take the default store
            raise typer.BadParameter(f"options come behind it: kvboost history {context.invoked_subcommand} ...")
        return
    with open_store(options.load({"store": store}).store_dir, readonly=True) as opened:
        asks = list_asks(opened)
    if as_json:
        console.write_json({"kept": len(asks), "asks": [_to_json(ask) for ask in asks[:limit]]})
    elif asks:
        columns = ("asked", "TTFT ms", "exact", "of", "documents, in order")
        console.render_table("", columns, [_row(ask) for ask in asks[:limit]], data=True)
    else:
        console.say("no asks are kept")


def clear(
    store: options.Store = None,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Remove past asks and lines of chats; the sums in `kvboost stats` stay."""
    from store import clear_asks

    from .. import console
    from ..settings import chat_history_file

    with options.changing_store(options.load({"store": store}), no_wait=no_wait) as opened:
        num_asks = clear_asks(opened)
    lines = _remove(chat_history_file())
    if as_json:
        console.write_json({"removed": num_asks, "chat_history": lines and str(lines)})
    elif not quiet:
        console.write_facts(f"removed: {num_asks:,} asks\n")
        if num_asks:
            console.write_facts("their bytes are in free space of the store's file until `kvboost compact`\n")
        if lines:
            console.write_facts(f"removed: the lines typed into chats: {lines}\n")


def _remove(file: "Path") -> "Path | None":
    """The file, which is gone then; None if there was none."""
    try:
        file.unlink()
    except FileNotFoundError:
        return None
    return file


def _to_json(ask: "AskEntry") -> dict[str, object]:
    facts = asdict(ask)
    return {
        "at": _time(ask).isoformat(timespec="seconds"),
        "documents": _documents(ask),
        "tokens": {
            name.removesuffix("_tokens"): facts[name]
            for name in ("prompt_tokens", "exact", "reused", "repaired", "prefilled", "generated")
        },
        "hits": {name: facts[f"documents_{name}"] for name in ("exact", "content", "miss")},
        "ttft_s": ask.ttft_s,
        "repair": ask.strategy,
        "speedup": ask.speedup,
    }  # fmt: skip


def _documents(ask: "AskEntry") -> list[dict[str, object]]:
    excerpts = ask.excerpts or (None,) * len(ask.documents)
    return [{"path": name, "chunks": places} for name, places in zip(ask.documents, excerpts, strict=True)]


def _row(ask: "AskEntry") -> tuple[str, ...]:
    return (
        _time(ask).strftime("%Y-%m-%d %H:%M"),
        f"{ask.ttft_s * 1000:.0f}",
        f"{ask.exact:,}",
        f"{ask.prompt_tokens:,}",
        ", ".join(ask.documents),
    )


def _time(ask: "AskEntry") -> datetime:
    """When it was asked, in local time."""
    return datetime.fromtimestamp(ask.at).astimezone()
