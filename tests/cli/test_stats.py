"""`stats` for people and programs: on terminals of all widths, in pipes, as a page."""

import json
import re
import stat
from dataclasses import replace

import pyte
import pytest
from desks import ESCAPE, Desk, assert_refused
from test_ask_output import STATS, assert_shape
from test_index_again import imported_modules

from store import AskEntry, ChunkStore

NUM_ASKS = 12
DOCUMENT = {
    "path": str, "tokens": int, "chunks": int, "evicted": int, "bytes": int, "pinned": bool, "asks": int,
    "last_asked": (str, type(None)), "importance": float,
}  # fmt: skip
ROWS = 200


def add_asks(desk: Desk, count: int = NUM_ASKS) -> None:
    """Asks on two days, most about one document; a third of them with a speed-up."""
    with ChunkStore.open(desk.store) as store:
        with store.snapshot() as snapshot:
            names = [name for name in snapshot.document_names() if name.endswith(("access.md", "on-call.md"))]
            hot = snapshot.document(names[1])
        assert hot is not None
        for number in range(count):
            ask = AskEntry(
                1.7e9 + 9e4 * (number % 2), "m", "question", 100, 40, 30, 20, 10, 5, 0.1 + 0.01 * number, 1, 1, 0,
                None if number % 3 else 4.0, tuple(names[1:] if number else names),
            )  # fmt: skip
            store.record_ask(ask, dict.fromkeys(hot.chunk_keys, 0.4))


@pytest.fixture
def used(desk: Desk) -> Desk:
    add_asks(desk)
    return desk


def screen_of(desk: Desk, columns: int, *args: str, **env: str) -> list[str]:
    """The lines that a terminal of that width shows at the end, without blanks at their ends."""
    shown = desk.open_terminal("stats", *args, COLUMNS=str(columns), **env)
    assert shown.finish() == 0, shown.shown
    screen = pyte.Screen(columns, ROWS)
    pyte.Stream(screen).feed(shown.shown)
    return [line.rstrip() for line in screen.display]


def test_json_has_what_was_asked_by_day_and_by_document(used: Desk) -> None:
    told = used.facts("stats", "--documents")
    assert_shape(told, STATS | {"by_document": [DOCUMENT]})
    assert len(told["by_document"]) == told["documents"] == 8
    assert told["hottest"][0]["path"].endswith("on-call.md")
    assert told["hottest"][0]["asks"] == NUM_ASKS
    assert [day["asks"] for day in told["days"]] == [NUM_ASKS // 2] * 2
    assert sum(day["tokens"]["reused"] for day in told["days"]) == 30 * NUM_ASKS
    assert [ask["ttft_s"] for ask in told["recent"]] == pytest.approx([0.1 + 0.01 * n for n in range(NUM_ASKS)])
    assert told["speedup"] == {"p50": 4.0, "measured": 4, "estimated": 0}
    (collection,) = told["collections"]
    assert (collection["path"], collection["documents"], collection["asks"]) == (str(used.docs), 8, NUM_ASKS)
    assert collection["bytes"] == sum(one["bytes"] for one in told["by_document"])


def test_documents_are_listed_on_request_only(used: Desk) -> None:
    assert used.facts("stats")["by_document"] is None
    assert "documents, hottest first" not in used.run("stats").stdout
    shown = used.run("stats", "--documents").stdout
    listed = shown.partition("documents, hottest first\n")[2].splitlines()
    assert len(listed) == 1 + 8
    assert listed[1].endswith("docs/on-call.md")


def test_in_a_pipe_there_are_tables_of_numbers_and_nothing_else(used: Desk) -> None:
    done = used.run("stats")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert ESCAPE not in done.stdout
    assert re.search(r"^2023-11-14 +240 +180 +120 +60$", done.stdout, re.MULTILINE)
    assert "TTFT of the latest asks" not in done.stdout, "a plot is for a terminal"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_of_any_width_shows_everything(used: Desk, columns: int) -> None:
    lines = screen_of(used, columns)
    text = "\n".join(lines)
    for title in (
        "collections",
        "TTFT of the latest asks, ms",
        "their speed-up",
        "tokens of prompts by day",
        "hottest",
    ):
        assert title in text
    assert "…" not in text, "no name is cut"
    assert str(used.store) in "".join(line[18:].strip() for line in lines), "a long name is broken into lines"
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("210 │") for line in lines), "the slowest ask is at the plot's top"


def test_no_color_is_honoured_and_bars_are_told_apart_by_marks(used: Desk) -> None:
    shown = used.open_terminal("stats", NO_COLOR="1")
    assert shown.finish() == 0
    assert not re.search(rf"{ESCAPE}\[(3\d|4\d|9\d)", shown.shown)
    assert re.search(r"2023-11-14 +600 +#+=+%+@+", shown.shown)


def test_the_c_locale_gets_ascii(used: Desk) -> None:
    assert "\n".join(screen_of(used, 80, LC_ALL="C")).isascii()


def test_a_store_without_an_ask_has_no_plots(desk: Desk) -> None:
    shown = "\n".join(screen_of(desk, 80))
    assert re.search(r"asks +0", shown)
    assert "TTFT" not in shown
    assert "by day" not in shown
    told = desk.facts("stats")
    assert (told["days"], told["recent"], told["speedup"]["p50"]) == ([], [], None)


def test_a_name_cannot_drive_the_terminal(used: Desk) -> None:
    rename(used, "on-call.md", "/notes/\x1b[31mred\x07.md")
    shown = used.open_terminal("stats", NO_COLOR="1")
    assert shown.finish() == 0
    assert "[31mred.md" in shown.shown
    assert f"{ESCAPE}[31m" not in shown.shown


def rename(desk: Desk, ending: str, name: str) -> None:
    """Give a stored document another name, below `/notes`."""
    with ChunkStore.open(desk.store) as store:
        with store.snapshot() as snapshot:
            entry = next(entry for entry in snapshot.documents() if entry.name.endswith(ending))
        store.put_document(replace(entry, name=name, root="/notes"), [])
        store.remove_document(entry.name)


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        (("5",), "is for --watch: 5"),
        (("--watch", "soon"), "a time is written as in"),
        (("--watch", "0"), "a time is written as in"),
        (("--html", "page.html", "--watch"), "leave out --watch or --html"),
        (("--html", "-", "--json"), "the page goes to stdout"),
        (("--html", "missing/page.html"), "the folder is not there: missing"),
        (("--html", "."), "it is not overwritten"),
    ],
)
def test_what_does_not_go_together_is_refused(desk: Desk, args: tuple[str, ...], fact: str) -> None:
    done = desk.run("stats", *args)
    if "--json" in args:
        assert (done.returncode, done.stdout) == (2, "")
        assert fact in json.loads(done.stderr)["error"]
    else:
        assert_refused(done, 2, fact)


def test_a_page_is_for_its_owner_alone_and_replaces_an_older_one_only(used: Desk) -> None:
    page, own = used.root / "page.html", used.write("own.html", "<!doctype html>\n<p>mine\n")
    for _ in range(2):
        done = used.run("stats", "--html", "page.html")
        assert (done.returncode, done.stdout, done.stderr) == (0, "written: page.html\n", "")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert sorted(path.name for path in used.root.iterdir()) == ["own.html", "page.html", "store"]
    assert_refused(used.run("stats", "--html", own), 2, "it is not overwritten")
    assert own.read_text() == "<!doctype html>\n<p>mine\n"
    piped = used.run("stats", "--html", "-")
    assert (piped.returncode, piped.stderr) == (0, "")
    assert without_minute(piped.stdout) == without_minute(page.read_text())


def without_minute(page: str) -> str:
    return re.sub(r"as of [\d :-]+", "", page)


def test_a_page_does_not_go_to_a_terminal(used: Desk) -> None:
    shown = used.open_terminal("stats", "--html", "-")
    assert shown.finish() == 2
    assert "send it to a file or a pipe" in shown.shown


def test_only_a_page_takes_the_libraries_that_draw_it(used: Desk) -> None:
    heavy = {"torch", "transformers", "numpy", "matplotlib", "jinja2"}
    assert imported_modules(used, "stats") & heavy == set()
    assert imported_modules(used, "stats", "--json") & heavy == set()
    assert imported_modules(used, "stats", "--html", "page.html") & heavy == {"numpy", "matplotlib", "jinja2"}
