"""Ctrl-C, kill -9, and several processes at once: nothing that was stored is lost, nothing is encoded twice."""

import json
import random
import re
import signal
import time
from pathlib import Path

import pytest
from desks import SCRIPT, Desk, prose

from store import ChunkStore

NUM_DOCUMENTS = 24
SEVERAL_STORED = rf"\b([2-9]|\d\d)/{NUM_DOCUMENTS} documents"


@pytest.fixture
def busy_desk(bare_desk: Desk) -> Desk:
    """Documents that take seconds to encode, each under six contexts."""
    for number in range(NUM_DOCUMENTS):
        bare_desk.write(f"reports/{number:02}.md", prose(number, 16))
    return bare_desk.with_env(KVBOOST_CONTEXTS="6")


def test_an_interrupted_index_run_keeps_its_documents_and_goes_on_where_it_was(busy_desk: Desk) -> None:
    planned = busy_desk.facts("index", "reports", "--dry-run")["chunks"]["new"]
    shown = busy_desk.open_terminal("index", "reports")
    assert shown.read_until(SEVERAL_STORED), "progress is shown while documents are done"
    shown.process.send_signal(signal.SIGINT)
    assert shown.finish() == 130
    assert "kvboost: error: interrupted." in shown.shown
    assert "Traceback" not in shown.shown
    kept = busy_desk.facts("stats")
    assert 2 <= kept["documents"] < NUM_DOCUMENTS
    again = busy_desk.facts("index", "reports")
    assert (again["documents"]["unchanged"], again["chunks"]["new"]) == (kept["documents"], planned - kept["chunks"])


def test_killed_index_runs_lose_nothing_that_was_stored(busy_desk: Desk) -> None:
    source, before = random.Random(1), 0
    for _ in range(2):
        shown = busy_desk.open_terminal("index", "reports")
        assert shown.read_until(r"\d+ chunks, [\d,]+ tokens/s"), "encoding has begun"
        time.sleep(source.uniform(0.0, 0.6))
        shown.process.kill()
        assert shown.finish() == -signal.SIGKILL
        kept = busy_desk.facts("stats")
        assert kept["documents"] >= before
        before = kept["documents"]
    again = busy_desk.facts("index", "reports")
    assert (again["documents"]["unchanged"], again["documents"]["added"]) == (before, NUM_DOCUMENTS - before)
    assert busy_desk.facts("stats")["documents"] == NUM_DOCUMENTS
    told = busy_desk.facts("ask", "Which station measured wave 17?", "--top-k", "2")
    assert [document["hit"] for document in told["documents"]] == ["exact", "content"]


def test_two_index_runs_at_once_share_the_work_and_a_question_is_answered_meanwhile(desk: Desk) -> None:
    for number in range(10):
        desk.write(f"reports/{number}.md", prose(number, 16))
    planned = desk.facts("index", "reports", "--dry-run")["chunks"]["new"]
    runs = [desk.start("index", "reports", "--json", "-q") for _ in range(2)]
    told = desk.facts("ask", "Who is on call?", "-d", "on-call.md")
    outputs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    facts = [json.loads(out) for out, _err in outputs]
    assert sum(one["chunks"]["new"] for one in facts) == planned
    assert [document["hit"] for document in told["documents"]] == ["exact"]
    assert desk.facts("stats")["documents"] == 18


def test_an_index_run_waits_for_another_one_and_says_so(desk: Desk) -> None:
    with ChunkStore.open(desk.store) as store, store.writer_lock():
        waiting = desk.start("index", desk.docs, "-q")
        assert waiting.stderr is not None
        assert "waiting for it to end" in waiting.stderr.readline()
        assert waiting.poll() is None
    _, rest = waiting.communicate()
    assert (waiting.returncode, rest) == (0, "")


def test_an_interrupted_answer_ends_with_130_and_the_store_is_whole(desk: Desk) -> None:
    question = ("ask", "Who is on call?", "-d", "on-call.md", "--max-tokens", "3000", "--temperature", "2")
    shown = desk.open_terminal(*question)
    assert shown.read_until(r"\S+ \S+"), "the answer has begun"
    shown.process.send_signal(signal.SIGINT)
    assert shown.finish() == 130
    assert re.search(r"kvboost: error: interrupted\.\s+next: ", shown.shown)
    assert "Traceback" not in shown.shown
    assert desk.facts("index", desk.docs)["documents"]["unchanged"] == 8


def test_files_that_vanish_while_indexing_are_told_and_the_rest_is_indexed(desk: Desk) -> None:
    files = [desk.write(f"reports/{number:02}.md", prose(number, 16)) for number in range(NUM_DOCUMENTS)]
    shown = desk.with_env(KVBOOST_STORE=str(desk.root / "new")).open_terminal("index", "reports")
    assert shown.read_until(r"\d+ chunks, [\d,]+ tokens/s")
    gone = _remove(files[-3:])
    assert shown.finish() == 3
    for path in gone:
        assert re.search(r"skipped, gone since it was found:", shown.shown), path
    facts = desk.with_env(KVBOOST_STORE=str(desk.root / "new")).facts("stats")
    assert facts["documents"] == NUM_DOCUMENTS - 3
    assert SCRIPT.exists()


def _remove(paths: list[Path]) -> list[Path]:
    for path in paths:
        path.unlink()
    return paths
