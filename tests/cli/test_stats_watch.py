"""`stats --watch`: a screen that is redrawn, blocks or objects where none can be, and how it ends."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
from desks import ESCAPE, SCRIPT, Desk, Terminal
from test_stats import NUM_ASKS, add_asks

from store import ChunkStore


@pytest.fixture
def used(desk: Desk) -> Desk:
    add_asks(desk)
    return desk


def test_watch_redraws_a_screen_of_its_own_and_sees_new_asks(used: Desk) -> None:
    watched = used.open_terminal("stats", "--watch", "0.2", COLUMNS="80", LINES="60")
    assert watched.read_until(rf"asks {{2,}}{NUM_ASKS}\b")
    add_asks(used, 3)
    assert watched.read_until(rf"asks {{2,}}{NUM_ASKS + 3}\b")
    watched.process.send_signal(signal.SIGINT)
    assert watched.finish() == 130
    assert watched.shown.count("\x1b[?1049h") == watched.shown.count("\x1b[?1049l") == 1, "the screen is given back"
    assert "error" not in watched.shown


def test_watch_gives_the_screen_back_when_it_is_terminated(used: Desk) -> None:
    watched = used.open_terminal("stats", "--watch", COLUMNS="80")
    assert watched.read_until("TTFT of the latest asks")
    watched.process.terminate()
    assert watched.finish() == 128 + signal.SIGTERM
    assert watched.shown.rstrip().endswith("\x1b[?1049l")


def test_watch_as_json_prints_an_object_on_each_line(used: Desk) -> None:
    process = used.start("stats", "--watch", "0.1", "--json")
    assert process.stdout is not None
    told = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate()
    assert (process.returncode, errors) == (130, "")
    assert [one["asks"]["count"] for one in told] == [NUM_ASKS] * 3
    assert all(json.loads(line) for line in rest.splitlines())


@pytest.mark.parametrize("kind", ["pipe", "dumb terminal"])
def test_watch_prints_blocks_where_nothing_can_be_redrawn(used: Desk, kind: str) -> None:
    if kind == "pipe":
        process = used.start("stats", "--watch", "0.1")
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        text = "".join(line for line, _ in zip(lines, range(60), strict=False))
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    else:
        watched = used.open_terminal("stats", "--watch", "0.1", TERM="dumb")
        assert watched.read_until(r"(?s)(coldest.*){2}")
        watched.process.send_signal(signal.SIGINT)
        assert watched.finish() == 130
        text = watched.shown
    assert ESCAPE not in text
    assert len(re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", text, re.MULTILINE)) >= 2


def test_watch_ends_quietly_when_its_reader_goes(used: Desk) -> None:
    process = used.start("stats", "--watch", "0.1")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait()) == ("", 0)
    process.stderr.close()


def test_watch_does_not_keep_pages_that_a_writer_frees(used: Desk) -> None:
    process = used.start("stats", "--watch", "30", "--json")
    assert process.stdout is not None
    process.stdout.readline()  # it sleeps now
    time.sleep(0.2)
    with ChunkStore.open(used.store) as store:
        assert not store._environment.is_read_since(0)
        add_asks(used, 3)
        assert not store._environment.is_read_since(0)
    process.send_signal(signal.SIGINT)
    process.communicate()


def test_a_store_that_is_not_there_is_told_on_the_screen_that_was(used: Desk) -> None:
    watched = Terminal([SCRIPT, "stats", "--watch", "--store", str(Path(used.root, "none"))], used.root, used.env)
    assert watched.finish() == 1
    assert "\x1b[?1049h" not in watched.shown
    assert "kvboost: error: " in watched.shown
