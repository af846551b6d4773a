"""How ``kvboost chat`` reads: a line editor on a terminal, plain lines from a pipe. The only user of prompt_toolkit.

What is read may have several lines: a backslash at a line's end goes on with the next. Bytes that are no UTF-8 are
lone surrogates in it, as they are in file names, so that a document can be named by them.
"""

import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING

from .. import console
from . import complete

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT, CONTINUED = "> ", "  "
MAX_HISTORY_BYTES = 1 << 18
"""Of a longer file of lines the latest half of this is kept when it is opened."""

ReadMessage = Callable[[], str | None]
"""Gives what was typed, or None at the end."""

Offer = Callable[[str], Iterable[str]]
"""From a line up to the cursor, what its last word may become."""

ENTRY_MARK = b"\n# "
"""Begins an entry of prompt_toolkit's history file."""


def read_pipe() -> str | None:
    """The next line of standard input, with those that a backslash adds to it."""
    lines: list[str] = []
    for data in iter(sys.stdin.buffer.readline, b""):
        line = data.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line[:-1])
    return "\n".join(lines) if lines else None


def readable(message: str) -> str:
    """A message as text, for the model or a file: bytes that are no UTF-8 become replacement characters."""
    return message.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def make_editor(history_file: Path | None, offer: Offer) -> ReadMessage:
    """A line editor with history and completion, on stderr; without a file nothing is kept."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        history=_open_history(history_file),
        completer=_make_completer(offer),
        complete_while_typing=False,
        key_bindings=_bind_keys(),
        output=create_output(stdout=sys.stderr),
    )
    return lambda: _read(session)


def _read(session: "PromptSession[str]") -> str | None:
    try:
        return session.prompt()
    except (EOFError, KeyboardInterrupt):
        return None


def _bind_keys() -> "KeyBindings":
    """Enter sends, Alt-Enter or a backslash before Enter begins a line, Ctrl-C empties what is typed or leaves."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if _goes_on(buffer):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: "KeyPressEvent") -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    def _(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    return keys


def _goes_on(buffer: "Buffer") -> bool:
    return buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\")


def _open_history(path: Path | None) -> "History":
    """The lines of earlier chats, in a file that its owner alone can read; in memory where there can be none."""
    from prompt_toolkit.history import InMemoryHistory

    if path is None:
        return InMemoryHistory()
    try:
        _prepare_history(path)
    except OSError as error:
        console.warn(f"what is typed is not kept ({error.strerror}): {path}")
        return InMemoryHistory()
    return _lines_in(path)


def _lines_in(path: Path) -> "History":
    from prompt_toolkit.history import FileHistory

    class Lines(FileHistory):
        def store_string(self, string: str) -> None:
            try:
                _make_private(path)  # it may have been removed since
                super().store_string(readable(string))
            except OSError as error:  # the line itself is there all the same
                console.warn(f"what was typed is not kept ({error.strerror}): {path}")

    return Lines(path)


def _prepare_history(path: Path) -> None:
    """Make the file; of one over ``MAX_HISTORY_BYTES`` keep the last half of those, from an entry's beginning on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device would be read for ever
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    _make_private(path)
    if path.stat().st_size <= MAX_HISTORY_BYTES:
        return
    later = path.read_bytes()[-MAX_HISTORY_BYTES // 2 :].partition(ENTRY_MARK)[2]
    shorter = path.resolve().with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(shorter, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(ENTRY_MARK + later)
    shorter.replace(path.resolve())  # a link to a file elsewhere stays one


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def _make_completer(offer: Offer) -> "Completer":
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        def get_completions(self, document: "Document", _event: "CompleteEvent") -> "Iterator[Completion]":
            line = document.text_before_cursor
            start = -len(line.rpartition(" ")[2])
            return (Completion(found, start_position=start) for found in offer(line))

    return Words()


def offer_files(word: str) -> list[str]:
    """Files and folders that a word begins the path of."""
    found = sorted(glob(f"{escape(os.path.expanduser(word))}*"))[: complete.MAX_OFFERED]
    return [f"{path}/" if os.path.isdir(path) else path for path in found]


def quote(names: Iterable[str]) -> list[str]:
    """Names as they have to be typed: those with a blank in quotes."""
    return [shlex.quote(name) for name in names]
