"""`kvboost prewarm`, `kvboost history`: real runs, in a pipe, beside other processes, interrupted, and with a log."""

import fcntl
import signal
import time
from pathlib import Path

import pytest
from desks import Desk, assert_refused, assert_told, prose
from test_index_again import imported_modules

from kvboost_cli import logfile


@pytest.fixture
def asked(desk: Desk) -> Desk:
    """Two orders of the handbook were asked."""
    for names in (("access.md", "on-call.md"), ("on-call.md", "access.md")):
        assert desk.run("ask", "Who?", "-q", *(word for name in names for word in ("-d", name))).returncode == 0
    return desk


def hits(desk: Desk, *names: str) -> list[str]:
    facts = desk.facts("ask", "Who?", *(word for name in names for word in ("-d", name)))
    return [document["hit"] for document in facts["documents"]]


def test_a_day_with_the_command_alone(desk: Desk) -> None:
    notes = desk.write("notes/tide.md", prose(3)).parent
    desk.write("notes/wind.md", prose(4))
    desk.run("index", "notes", "-q")
    assert hits(desk, "tide.md", "wind.md") == ["exact", "content"]
    assert hits(desk, "tide.md", "wind.md") == ["exact", "content"]
    (notes / "wind.md").write_text(prose(5))
    (notes / "new.md").write_text(prose(6))
    dry = desk.run("prewarm", "--dry-run")
    assert f"would be made exact: {notes}/tide.md, {notes}/wind.md (" in dry.stdout
    assert dry.stdout.endswith("asked 2 times)\ndry run: nothing was changed\n")
    told = desk.run("prewarm")
    assert told.stdout.splitlines()[0] == "documents: 1 added, 1 updated, 9 unchanged"
    assert "orders: 1 made exact" in told.stdout
    assert "\x1b" not in told.stdout + told.stderr
    assert hits(desk, "tide.md", "wind.md") == ["exact", "exact"]
    again = desk.run("prewarm")
    assert (again.stdout, again.stderr) == ("nothing to do: 11 documents, 1 orders exact\n", "")
    (notes / "wind.md").unlink()
    facts = desk.facts("prewarm", "--page-cache")
    assert facts["documents"]["removed"] == 1
    assert facts["page_cache"]["bytes"] > 0
    assert facts["complete"]


def test_nothing_to_do_needs_no_torch(asked: Desk) -> None:
    assert asked.facts("prewarm")["orders"]["made"] == 2
    assert imported_modules(asked, "prewarm") & {"torch", "transformers", "numpy"} == set()
    assert imported_modules(asked, "prewarm", "--page-cache") & {"torch", "transformers", "numpy"} == set()
    assert imported_modules(asked, "history") & {"torch", "transformers", "numpy", "pydantic"} <= {"pydantic"}
    assert imported_modules(asked, "cron", "print") & {"torch", "transformers", "numpy", "lmdb"} == set()


def test_another_process_at_work_is_no_reason_to_wait(asked: Desk) -> None:
    with (asked.store / "kvboost-store.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert_refused(asked.run("prewarm"), 75, "another process is writing to it")
        assert asked.run("prewarm", "--dry-run").returncode == 0
        assert hits(asked, "access.md", "on-call.md") == ["exact", "content"], "asks need no lock"


def test_an_interrupted_run_keeps_what_is_done_and_the_next_goes_on(asked: Desk) -> None:
    for number in range(12):
        asked.write(f"notes/{number}.md", prose(20 + number, 12))
    assert asked.run("index", "notes", "--dry-run").returncode == 0
    asked.run("index", asked.write("notes/only.md", prose(99)), "-q")
    asked.run("index", "notes", "-q", "--glob", "only.md")
    process = asked.start("index", "notes")  # the folder is remembered when the run begins
    deadline = time.monotonic() + 60
    while asked.facts("stats")["documents"] < 11 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1].count("Traceback") == 0
    stored = asked.facts("stats")["documents"]
    facts = asked.facts("prewarm")
    assert facts["documents"]["added"] == 8 + 13 - stored
    assert facts["orders"]["made"] == 2


def test_a_file_that_cannot_be_read_is_told_and_the_rest_is_done(asked: Desk) -> None:
    notes = asked.write("notes/good.md", prose(1)).parent
    asked.run("index", "notes", "-q")
    (notes / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    (notes / "good.md").write_text(prose(2))
    done = asked.run("prewarm")
    assert done.returncode in (0, 3), done.stderr
    assert "documents: 1 updated" in done.stdout


def test_a_log_has_all_that_is_told_and_is_rotated(asked: Desk) -> None:
    log = asked.root / "logs" / "prewarm.log"
    for _ in range(2):
        done = asked.run("prewarm", "--log", log)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = log.read_text()
    assert text.count(f" prewarm {asked.store}\n") == 2
    assert "orders: 2 made exact" in text
    assert text.endswith("nothing to do: 8 documents, 2 orders exact\n")
    missing = asked.with_env(KVBOOST_STORE=str(asked.root / "none"))
    assert missing.run("prewarm", "--log", log).returncode == 1
    assert "kvboost: error: there is no store at" in log.read_text()
    for number in range(logfile.NUM_KEPT + 2):
        log.write_bytes(b"x" * logfile.MAX_BYTES)
        asked.run("prewarm", "--log", log)
        assert log.stat().st_size < 1000, number
    kept = sorted(path.name for path in log.parent.iterdir())
    assert kept == ["prewarm.log", *(f"prewarm.log.{number}" for number in range(1, logfile.NUM_KEPT + 1))]


def test_wrong_options_are_refused(asked: Desk) -> None:
    assert_refused(asked.run("prewarm", "--max-time", "soon"), 2, "a time is written as in 90s, 10m or 2h, not soon")
    assert_refused(asked.run("prewarm", "--ignore", "notes", "--dry-run"), 2, "a dry run changes nothing")
    assert_refused(asked.run("prewarm", "--log", "/proc/none/log"), 2, "/proc/none/log")
    assert "this folder was not looked through: notes" in asked.run("prewarm", "--ignore", "notes").stderr
    assert_told(asked.with_env(KVBOOST_HISTORY="perhaps").run("prewarm"), "KVBOOST_HISTORY")


def test_the_history_tells_orders_and_can_be_cleared(asked: Desk) -> None:
    docs = str(asked.docs)
    facts = asked.facts("history", "--limit", "1")
    assert facts["kept"] == 2
    (ask,) = facts["asks"]
    assert [Path(document["path"]).name for document in ask["documents"]] == ["on-call.md", "access.md"]
    assert ask["hits"] == {"exact": 1, "content": 1, "miss": 0}
    shown = asked.run("history").stdout
    assert shown.index(f"{docs}/on-call.md, {docs}/access.md") < shown.index(f"{docs}/access.md, {docs}/on-call.md")
    assert asked.run("history", "clear").stdout.startswith("removed: 2 asks\n")
    assert asked.facts("history") == {"kept": 0, "asks": []}
    none = asked.run("history")
    assert (none.stdout, none.stderr) == ("", "no asks are kept\n")
    assert_refused(asked.run("history", "--store", "other", "clear"), 2, "options come behind it")
    assert asked.facts("stats")["asks"] == {"count": 2, "exact": 2, "content": 2, "miss": 0}
    assert asked.facts("history", "clear") == {"removed": 0, "chat_history": None}


def test_a_history_that_is_turned_off_keeps_sums_alone(desk: Desk) -> None:
    quiet = desk.with_env(KVBOOST_HISTORY="false")
    assert hits(quiet, "access.md", "on-call.md") == ["exact", "content"]
    assert desk.facts("history")["kept"] == 0
    assert desk.facts("stats")["asks"]["count"] == 1
    assert desk.facts("prewarm")["orders"]["wanted"] == []
