"""Every command on terminals of any width, in a C locale without colours, and in a pipe whose reader goes early."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from desks import COLOUR, ESCAPE, UTF8, Desk, SizedTerminal

from kvboost_cli.commands import MODULES

QUESTION = "Who is on call, and when is the week handed over?"
RUNS = {
    "index": (("index", "DOCS"), ("index", "DOCS", "--dry-run")),
    "ask": (("ask", QUESTION, "-d", "on-call.md"),),
    "prewarm": (("prewarm",), ("prewarm", "--dry-run")),
    "cron": (("cron", "print"), ("cron", "status")),
    "history": (("history",), ("history", "clear")),
    "stats": (("stats",), ("stats", "--documents"), ("stats", "--html", "stats.html")),
    "doctor": (("doctor",), ("doctor", "--check")),
    "budget": (("budget",), ("budget", "1GB")),
    "pin": (("pin", "on-call.md"), ("pin",)),
    "prune": (("prune", "--dry-run"),),
    "compact": (("compact",),),
    "forget": (("forget", "access.md"),),
    "export": (("export", "all.kvb"),),
    "import": (("import", "all.kvb"),),
    "plan": (("plan", "DOCS", "--budget", "1GB", "--context", "1000"),),
    "bench": (("bench", "eviction", "--repeats", "2", "--questions", "50"),),
    "models": (("models", "list"),),
    "config": (("config", "show"), ("config", "path")),
    "path": (("path",),),
}
"""What is run of each command; ``DOCS`` is the desk's folder."""
TYPED_INTO = "chat"
"""Waits for keys on a terminal: its own tests press them."""


@pytest.fixture(scope="module")
def asked(stocked: Desk, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a past ask, and a bundle of all its documents in `all.kvb`."""
    root = tmp_path_factory.mktemp("asked")
    store = Path(shutil.copytree(stocked.store, root / "store"))
    desk = Desk(root, stocked.docs, store, stocked.env | {"KVBOOST_STORE": str(store)})
    for args in (("ask", QUESTION, "-d", "on-call.md", "-d", "access.md"), ("export", "all.kvb")):
        done = desk.run(*args)
        assert done.returncode == 0, done.stderr
    return desk


def copy_desk(desk: Desk, root: Path) -> Desk:
    shutil.copytree(desk.root, root)
    return Desk(root, desk.docs, root / "store", desk.env | {"KVBOOST_STORE": str(root / "store")})


@pytest.fixture
def asked_desk(asked: Desk, tmp_path: Path) -> Desk:
    """The same, and the test's own."""
    return copy_desk(asked, tmp_path / "asked")


def arguments(desk: Desk, run: Sequence[str]) -> list[str]:
    return [str(desk.docs) if part == "DOCS" else part for part in run]


def test_no_command_is_left_out() -> None:
    assert {*RUNS, TYPED_INTO} == set(MODULES)


@pytest.mark.parametrize("command", [*RUNS, TYPED_INTO])
def test_a_page_of_help_fits_a_narrow_terminal(stocked: Desk, command: str) -> None:
    lines = SizedTerminal(stocked, 40, command, "--help", **UTF8).lines()
    assert [line for line in lines if len(line) > 40 and not is_one_piece(line, 40)] == []


@pytest.mark.parametrize("num_columns", [40, 80, 200])
@pytest.mark.parametrize("command", RUNS)
def test_nothing_is_wider_than_its_terminal(asked_desk: Desk, command: str, num_columns: int) -> None:
    """But for what must not be broken, since it is copied: a path, a flag, a line of a crontab."""
    for run in RUNS[command]:
        lines = SizedTerminal(asked_desk, num_columns, *arguments(asked_desk, run), **UTF8).lines()
        assert not any("Traceback" in line for line in lines)
        wide = [line for line in lines if len(line) > num_columns and not is_one_piece(line, num_columns)]
        assert wide == [], f"{run} at {num_columns} columns"


def is_one_piece(line: str, num_columns: int) -> bool:
    """Whether it must not be broken, or could not have been broken earlier."""
    text = line.strip()
    is_to_copy = "kvboost " in text or " /usr/bin/env " in text
    is_flag = text.startswith("-") and "|" in text
    return is_to_copy or is_flag or " " not in text[:num_columns].strip() or "/" in text.split()[-1]


@pytest.mark.parametrize("command", RUNS)
def test_without_colour_in_a_c_locale_all_is_plain_ascii(asked_desk: Desk, command: str, tmp_path: Path) -> None:
    for run in RUNS[command]:
        answer = tmp_path / "answer" if command == "ask" else None  # which is what the model says, in UTF-8
        told = SizedTerminal(asked_desk, 80, *arguments(asked_desk, run), stdout=answer, LC_ALL="C", NO_COLOR="1")
        assert told.finish() == 0, told.shown
        assert told.shown.isascii(), run
        assert not COLOUR.search(told.shown), run


@pytest.mark.parametrize("command", RUNS)
def test_in_a_pipe_there_are_no_escapes_and_a_reader_may_go_early(
    asked_desk: Desk, command: str, tmp_path: Path
) -> None:
    left_desk = copy_desk(asked_desk, tmp_path / "left")
    for run in RUNS[command]:
        args = arguments(asked_desk, run)
        done = asked_desk.with_env(**UTF8).run(*args)
        assert done.returncode == 0, done.stderr
        assert ESCAPE not in done.stdout + done.stderr
        gone = left_desk.start(*args, stderr=subprocess.PIPE)
        assert gone.stdout is not None
        gone.stdout.close()
        _, told = gone.communicate()
        assert gone.returncode == 0, told
        assert "Traceback" not in told
        assert "Broken" not in told
