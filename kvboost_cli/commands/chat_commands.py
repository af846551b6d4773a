"""The commands within ``kvboost chat``: what a line that begins with a slash does to the conversation."""

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import console
from . import chat_input, chat_output, complete
from .errors import ChatCommandRefused

if TYPE_CHECKING:
    from ..pipelines.conversation import Conversation
    from ..pipelines.workspace import Workspace


Run = Callable[["Workspace", "Conversation", Sequence[str]], "Conversation | None"]
"""From the words behind a command to the conversation after it; None leaves."""


@dataclass(frozen=True)
class ChatCommand:
    """``usage`` is what may stand behind the name; without any the command takes no words."""

    usage: str
    meaning: str
    run: Run


def is_command(message: str) -> bool:
    """Whether a message is for the chat and not for the model; one that begins with a blank never is."""
    return message.startswith("/")


def run_command(workspace: "Workspace", conversation: "Conversation", message: str) -> "Conversation | None":
    """The conversation after a command, None to leave. Raises ``ChatCommandRefused`` and what its documents raise."""
    name, words = _parse(message)
    command = COMMANDS.get(name)
    if command is None:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        raise ChatCommandRefused(f"a chat has no such command{f' (did you mean {close[0]}?)' if close else ''}: {name}")
    if bool(words) != bool(command.usage):
        wanted = f"takes no words: {message}" if words else f"needs documents, as in `{name} {command.usage}`"
        raise ChatCommandRefused(f"{name} {wanted}")
    if not all(words):
        raise ChatCommandRefused(f"a document's name is empty: {message}")
    return command.run(workspace, conversation, words)


def _parse(message: str) -> tuple[str, list[str]]:
    try:
        name, *words = shlex.split(message)
    except ValueError as error:
        raise ChatCommandRefused(f"a quotation mark has no partner: {message}") from error
    return name, words


def offer(workspace: "Workspace", conversation: "Conversation", line: str) -> Iterable[str]:
    """What the last word of a line may become: a command, or behind one a document."""
    name, blank, _rest = line.partition(" ")
    word = line.rpartition(" ")[2]
    if not is_command(line):
        return ()
    if not blank:
        return [command for command in COMMANDS if command.startswith(name)]
    if name == "/add":
        with workspace.store.snapshot() as snapshot:
            stored = complete.offer(snapshot.document_names(), word)
        return chat_input.quote(dict.fromkeys([*stored, *(chat_input.offer_files(word) if word else ())]))
    if name in ("/drop", "/order"):
        return chat_input.quote(complete.offer([document.name for document in conversation.documents], word))
    return ()


def _add(workspace: "Workspace", conversation: "Conversation", words: Sequence[str]) -> "Conversation":
    from ..pipelines.talked_about import fetch_documents

    known = {document.name for document in conversation.documents}
    added = [document for document in fetch_documents(workspace, words) if document.name not in known]
    if not added:
        console.say("they are all there already")
        return conversation
    return _changed(conversation.with_documents([*conversation.documents, *added]))


def _drop(_workspace: "Workspace", conversation: "Conversation", words: Sequence[str]) -> "Conversation":
    from ..pipelines.talked_about import pick_places

    dropped = pick_places(conversation.documents, words)
    left = [document for place, document in enumerate(conversation.documents) if place not in dropped]
    return _changed(conversation.with_documents(left))


def _order(_workspace: "Workspace", conversation: "Conversation", words: Sequence[str]) -> "Conversation":
    from ..pipelines.talked_about import pick_places

    documents = conversation.documents
    first = pick_places(documents, words)
    places = [*first, *(place for place in range(len(documents)) if place not in first)]
    return _changed(conversation.with_documents([documents[place] for place in places], is_ordered=True))


def _changed(conversation: "Conversation") -> "Conversation":
    chat_output.say_documents(conversation)
    return conversation


def _docs(_workspace: "Workspace", conversation: "Conversation", _words: Sequence[str]) -> "Conversation":
    chat_output.say_documents(conversation)
    return conversation


def _stats(workspace: "Workspace", conversation: "Conversation", _words: Sequence[str]) -> "Conversation":
    chat_output.say_figures(conversation, workspace.handle.geometry.max_positions)
    return conversation


def _new(_workspace: "Workspace", conversation: "Conversation", _words: Sequence[str]) -> "Conversation":
    fresh = conversation.start_over()
    console.say("a new conversation" + (" about the same documents" if fresh.documents else ""))
    return fresh


def _help(_workspace: "Workspace", conversation: "Conversation", _words: Sequence[str]) -> "Conversation":
    for name, command in COMMANDS.items():
        console.say_wrapped(f"{f'{name} {command.usage}'.strip():<16}{command.meaning}")
    console.say_wrapped("Anything else is a question. One about a path begins with a blank.")
    console.say_wrapped("Alt-Enter, or a backslash at the end of a line, begins another line.")
    console.say_wrapped("Tab completes commands and documents. Ctrl-C ends an answer; on an empty line it leaves.")
    return conversation


def _quit(_workspace: "Workspace", _conversation: "Conversation", _words: Sequence[str]) -> None:
    return None


COMMANDS = {
    "/add": ChatCommand("DOC...", "take documents in: files, stored names or the ends of them, patterns", _add),
    "/drop": ChatCommand("DOC...", "take documents out, by number or name", _drop),
    "/order": ChatCommand("DOC...", "put these documents first, in this order", _order),
    "/docs": ChatCommand("", "the documents, with their numbers", _docs),
    "/stats": ChatCommand("", "how full the cache is, and what each turn took", _stats),
    "/new": ChatCommand("", "begin a new conversation about the named documents", _new),
    "/help": ChatCommand("", "this list", _help),
    "/quit": ChatCommand("", "leave; so does Ctrl-D", _quit),
}
