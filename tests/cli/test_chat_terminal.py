"""`chat` on a terminal: what the keys do, what is remembered, how it looks at any width."""

import os
import re
import select
import stat
from pathlib import Path

import pyte
import pytest
from desks import COLOUR, ESCAPE, UTF8, Desk, SizedTerminal

LONG = ("--max-tokens", "3000", "--temperature", "2", "--seed", "1")
CTRL_C, CTRL_D, ALT_ENTER, TAB, UP = "\x03", "\x04", "\x1b\r", "\t", "\x1b[A"
PATIENCE_S = 20
"""A chat that shows nothing for so long waits for a key that the test does not press."""
READY = r">\x08? ?$"


class ChatTerminal(SizedTerminal):
    """A chat; ``read_until`` looks at what has come since the last key."""

    def __init__(self, desk: Desk, num_columns: int, *args: str, **env: str) -> None:
        super().__init__(desk, num_columns, "chat", *args, **(UTF8 | {"PROMPT_TOOLKIT_NO_CPR": "1"} | env))
        self.everything = ""

    def type(self, keys: str) -> None:
        self.everything, self.shown = self.everything + self.shown, ""
        os.write(self._main, keys.encode())

    def wait(self, pattern: str = READY) -> str:
        """Read on until this is shown, without escape codes."""
        while re.search(pattern, self.plain()) is None:
            assert self._read(), f"the chat has ended: {self.shown!r}"
        return self.plain()

    def leave(self, keys: str = CTRL_D) -> None:
        """Wait for the prompt, and leave: at any other moment the key would be the terminal's own."""
        self.wait()
        self.type(keys)
        assert self.finish() == 0

    def _read(self) -> bool:
        ready, _, _ = select.select([self._main], [], [], PATIENCE_S)
        if not ready:
            self.process.kill()
            self.process.wait()
        assert ready, f"nothing more comes: {self.shown!r}"
        return super()._read()

    def plain(self) -> str:
        return re.sub(rf"{ESCAPE}(\[[0-9;?]*[A-Za-z]|=|>)", "", self.shown).replace("\r", "")

    def screen(self, num_columns: int) -> list[str]:
        """What a terminal of this width shows of it."""
        display = pyte.Screen(num_columns, 400)
        pyte.Stream(display).feed(self.everything + self.shown)
        return [line.rstrip() for line in display.display]


def home_file(desk: Desk) -> Path:
    return Path(desk.env["XDG_DATA_HOME"]) / "kvboost" / "chat-history"


@pytest.fixture
def own(desk: Desk) -> Desk:
    """A desk with a data directory of its own."""
    return desk.with_env(XDG_DATA_HOME=str(desk.root / "data"))


@pytest.mark.parametrize(("num_columns", "locale"), [(40, "C"), (80, "C.UTF-8"), (200, "C.UTF-8")])
def test_a_chat_fits_its_terminal(own: Desk, num_columns: int, locale: str) -> None:
    chat = ChatTerminal(own, num_columns, "-d", "on-call.md", NO_COLOR="1", LC_ALL=locale)
    assert "/help lists the commands" in " ".join(chat.wait().split())
    for typed, seen in (
        ("/help\r", "leave; so does Ctrl-D"),
        ("Who is on call?\r", "prefilled"),
        ("And who is called first?\r", "of earlier turns"),
        ("/docs\r", "on-call.md"),
        ("/stats\r", "out: tokens of the answer"),
        ("/drop\r", "next: "),
    ):
        chat.type(typed)
        chat.wait(r"\s+".join(seen.split()) + rf"[\s\S]*{READY}")
    chat.leave("/quit\r")
    lines = chat.screen(num_columns)
    assert any(line.startswith("> Who is on call?") for line in lines)
    assert not COLOUR.search(chat.everything + chat.shown)
    assert locale != "C" or (chat.everything + chat.shown).isascii()
    talk = [line for line in lines if "kvboost: error" not in line]
    text = " ".join(" ".join(talk).split())
    assert re.search(r"live of documents, [\d,]+ live of earlier turns, [\d,]+ prefilled", text)
    broken = [line for line in talk if len(line) == num_columns and not line.endswith((" ", "."))]
    assert broken == [], "nothing but an error's line runs on at the edge"


@pytest.mark.parametrize("keys", [CTRL_D, CTRL_C, "/quit\r"])
def test_it_is_left_with_0(own: Desk, keys: str) -> None:
    chat = ChatTerminal(own, 80)
    chat.leave(keys)
    assert "error" not in chat.shown


def test_ctrl_c_empties_a_line_and_ends_an_answer_but_not_the_chat(own: Desk) -> None:
    chat = ChatTerminal(own, 80, "-d", "on-call.md", *LONG)
    chat.wait()
    chat.type("/qui")
    chat.wait("/qui")
    chat.type(CTRL_C)
    chat.type("Who is on call?\r")
    chat.wait(r"loading the model\n\s*\S+\s+\S+")
    chat.type(CTRL_C)
    chat.wait(rf"first token in [\s\S]*{READY}")
    chat.type("/stats\r")
    assert re.search(r"^ +1 +[\d,]+ +0 ", chat.wait(rf"of\s+the\s+answer\n{READY}"), re.MULTILINE), "it is a turn"
    chat.type("And who else?\r")
    chat.wait(r"else\?\n\s*\S+\s+\S+")
    chat.type(CTRL_C)
    chat.wait(rf"live of earlier[\s\S]*{READY}")
    chat.leave()
    assert "Traceback" not in chat.everything + chat.shown


def test_many_lines_are_one_question(own: Desk) -> None:
    chat = ChatTerminal(own, 80, "-d", "on-call.md", "--json")
    chat.wait()
    chat.type("One\\\rtwo" + ALT_ENTER + "three?\r")
    shown = chat.wait(r'"question": "[^"]*"')
    assert '"question": "One\\ntwo\\nthree?"' in shown
    chat.wait(rf"\}}\n[\s\S]*{READY}")
    chat.leave()


def test_tab_completes_commands_and_documents(own: Desk) -> None:
    chat = ChatTerminal(own, 80, "-d", "on-call.md")
    chat.wait()
    chat.type("/dr" + TAB)
    chat.wait("/drop")
    chat.type(" on" + TAB)
    chat.wait("on-call.md")
    chat.type("\r")
    chat.wait("no documents: the search chooses")
    chat.type("/add acc" + TAB)
    chat.wait("access.md")
    chat.type("\r")
    chat.wait(r"1 +access.md")
    chat.leave()


def test_lines_are_kept_for_their_owner_alone_and_come_back(own: Desk) -> None:
    for line in ("/docs", "/stats"):
        chat = ChatTerminal(own, 80)
        chat.wait()
        chat.type(f"{line}\r")
        chat.wait(rf"\n[\s\S]*{READY}")
        chat.leave()
    path = home_file(own)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.findall(r"^\+(.*)$", path.read_text(), re.MULTILINE) == ["/docs", "/stats"]
    chat = ChatTerminal(own, 80)
    chat.wait()
    chat.type(UP + UP)
    chat.wait("/docs")
    chat.type("\r")
    chat.wait("the search chooses")
    chat.leave()


def test_history_clear_removes_the_lines_and_a_chat_that_runs_begins_anew(own: Desk) -> None:
    path = home_file(own)
    chat = ChatTerminal(own, 80)
    chat.wait()
    chat.type("/docs\r")
    chat.wait(rf"search chooses[\s\S]*{READY}")
    assert own.facts("history", "clear") == {"removed": 0, "chat_history": str(path)}
    assert not path.exists()
    chat.type("/stats\r")
    chat.wait(rf"live cache[\s\S]*{READY}")
    chat.leave()
    assert re.findall(r"^\+(.*)$", path.read_text(), re.MULTILINE) == ["/stats"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert own.run("history", "clear").stdout == f"removed: 0 asks\nremoved: the lines typed into chats: {path}\n"


def test_without_history_nothing_is_kept(own: Desk) -> None:
    chat = ChatTerminal(own, 80, KVBOOST_HISTORY="false")
    chat.wait()
    chat.type("/docs\r")
    chat.wait(rf"search chooses[\s\S]*{READY}")
    chat.leave()
    assert not home_file(own).exists()


def test_a_history_that_cannot_be_kept_is_told_once(own: Desk) -> None:
    home_file(own).mkdir(parents=True)
    chat = ChatTerminal(own, 200)
    chat.wait()
    chat.type("/docs\r")
    chat.wait(rf"search chooses[\s\S]*{READY}")
    chat.leave()
    assert (chat.everything + chat.shown).count("what is typed is not kept (Is a directory)") == 1


def test_a_history_that_is_no_file_is_not_waited_for(own: Desk) -> None:
    home_file(own).parent.mkdir(parents=True)
    os.mkfifo(home_file(own))
    chat = ChatTerminal(own, 200)
    assert "what is typed is not kept (not a regular file)" in chat.wait()
    chat.leave()


def test_a_history_that_is_a_link_stays_one(own: Desk) -> None:
    elsewhere = own.write("elsewhere/lines", "".join(f"\n# 2026-01-01\n+question {n}\n" for n in range(12000)))
    home_file(own).parent.mkdir(parents=True)
    home_file(own).symlink_to(elsewhere)
    chat = ChatTerminal(own, 80)
    chat.leave()
    assert home_file(own).is_symlink()
    assert 0 < elsewhere.stat().st_size < 140_000


def test_bytes_that_are_no_text_are_asked_and_kept_as_replacement_characters(own: Desk) -> None:
    chat = ChatTerminal(own, 80, "-d", "on-call.md", "--json")
    chat.wait()
    os.write(chat._main, b"caf\xe9?\r")
    assert '"question": "caf\ufffd?"' in chat.wait(r'"question": "[^"]*"')
    chat.wait(rf"\}}\n[\s\S]*{READY}")
    chat.leave()
    assert re.findall(r"^\+(.*)$", home_file(own).read_text(), re.MULTILINE) == ["caf\ufffd?"]


def test_a_long_history_loses_its_older_half(own: Desk) -> None:
    path = home_file(own)
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"\n# 2026-01-01\n+question {number}\n" for number in range(12000)))
    chat = ChatTerminal(own, 80)
    chat.wait()
    chat.type(UP)
    chat.wait("question 11999")
    chat.type(CTRL_C + CTRL_D)
    assert chat.finish() == 0
    assert path.stat().st_size < 140_000
    assert path.read_text().startswith("\n# 2026-01-01\n+question ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
