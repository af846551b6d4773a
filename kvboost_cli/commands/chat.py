"""``kvboost chat``: a conversation over documents, whose cache stays alive between questions."""

import sys
from typing import TYPE_CHECKING

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from ..settings import Settings
    from .chat_input import ReadMessage
    from .chatting import Chat


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("chat", cls=Page)(chat)


def chat(
    document: options.Documents = None,
    top_k: options.TopK = None,
    order: options.Order = None,
    store: options.Store = None,
    model: options.Model = None,
    repair: options.Repair = None,
    ratio: options.Ratio = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    system: options.System = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Talk about documents: later questions are computed behind what the live cache holds already.

    /help lists the commands of a chat. From a pipe it reads one question a line; answers alone go to stdout.
    """
    settings = options.load(
        {
            "top_k": top_k, "order": order, "store": store, "model": model, "repair": repair, "ratio": ratio,
            "system": system, "max_tokens": max_tokens, "temperature": temperature, "device": device, "dtype": dtype,
            "report": report,
        }
    )  # fmt: skip
    options.check_repair(ratio, settings)
    names = options.check_names(document)
    is_terminal = _is_terminal()
    with options.open_workspace(settings, create=options.names_a_file(names)) as workspace:
        from ..pipelines.conversation import Conversation
        from ..pipelines.talked_about import fetch_documents
        from .chatting import Chat

        conversation = Conversation().with_documents(fetch_documents(workspace, names))
        running = Chat(
            workspace, settings, conversation, seed,
            report="none" if quiet else _choose_report(report, settings),
            as_json=as_json, quiet=quiet, is_terminal=is_terminal,
        )  # fmt: skip
        if running.run(_reader(running)) and not is_terminal:
            raise typer.Exit(3)


def _choose_report(flag: str | None, settings: "Settings") -> str:
    """A line for each turn, unless the flag asks for more or a setting for less."""
    return "line" if flag is None and settings.report == "full" else settings.report


def _is_terminal() -> bool:
    """Whether somebody types and sees what is typed; a usage error if nothing can be read."""
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed")
    return sys.stdin.isatty() and sys.stderr.isatty()


def _reader(chat: "Chat") -> "ReadMessage":
    from ..settings import chat_history_file
    from . import chat_commands, chat_input, chat_output

    if not chat.is_terminal:
        return chat_input.read_pipe
    if not chat.quiet:
        chat_output.say_welcome(chat.conversation)
    return chat_input.make_editor(
        chat_history_file() if chat.settings.history else None,
        lambda line: chat_commands.offer(chat.workspace, chat.conversation, line),
    )
