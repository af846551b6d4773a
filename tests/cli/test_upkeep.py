"""`kvboost doctor --check` and `--repair`, `prune`, `compact`: what a store needs now and then, by the real script."""

import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from desks import Desk, assert_refused, prose
from test_damage import damage_large_values
from test_doctor import damage_headers, detail

from store import ChunkStore

QUESTION = "Who is on call, and when is the week handed over?"
PARTS = ["pages", "chunks", "positions", "documents", "counts", "asks", "meta", "search"]
WAITING = "another kvboost is at work on this store; waiting for it to end\n"


def states(told: Any) -> dict[str, str]:
    return {check["name"]: check["state"] for check in told["checks"]}


def test_a_sound_store_passes_the_check_of_everything(desk: Desk) -> None:
    desk.facts("ask", QUESTION, "-d", "on-call.md")
    told = desk.facts("doctor", "--check")
    assert states(told) == dict.fromkeys(PARTS, "ok")
    assert (told["faults"], told["num_faults"], told["healthy"]) == ([], 0, True)
    assert told["bytes_read"] > 500_000
    done = desk.run("doctor", "--check", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == PARTS
    assert desk.run("doctor", "--check").stderr.startswith("checking the store: ")


def test_a_store_without_documents_passes(bare_desk: Desk) -> None:
    empty = bare_desk.write("docs/a.md", prose(1))
    bare_desk.run("index", empty)
    empty.unlink()
    bare_desk.run("index", "docs", "--prune")
    assert bare_desk.facts("doctor", "--check")["healthy"]


def test_what_is_damaged_is_dropped_by_repair_and_made_anew_by_index(desk: Desk) -> None:
    damage_headers(desk.store, "chunks", 2)
    assert damage_large_values(desk.store / "data.mdb") > 10
    told = desk.facts("doctor", "--check", code=1)
    assert states(told)["chunks"] == states(told)["positions"] == "failed"
    assert told["num_faults"] == len(told["faults"]) > 10
    assert {fault["kind"] for fault in told["faults"]} == {"damaged"}
    assert all(check["next_step"] for check in told["checks"] if check["state"] == "failed")
    repaired = desk.facts("doctor", "--repair")
    assert {states(repaired)[name] for name in ("chunks", "positions")} == {"repaired"}
    again = desk.facts("doctor", "--check")
    assert states(again) == dict.fromkeys(PARTS, "ok")
    assert "not stored, and are made anew when needed" in detail(again, "counts")
    assert desk.facts("index", desk.docs)["chunks"]["new"] > 2
    assert detail(desk.facts("doctor", "--check"), "counts").endswith(" counts")
    assert desk.facts("ask", QUESTION, "-d", "on-call.md")["documents"][0]["hit"] == "exact"


@pytest.mark.parametrize("damage", ["missing", "garbage", "lacks and has too much"])
def test_the_search_index_is_repaired_from_the_store(desk: Desk, damage: str) -> None:
    if damage == "lacks and has too much":
        kept = [shutil.copy(path, desk.root / path.name) for path in desk.store.glob("search.sqlite*")]
        desk.run("index", desk.write("new.md", prose(1)))
        with ChunkStore.open(desk.store) as store:
            store.remove_document(str(desk.docs / "access.md"))
        for path in kept:
            shutil.copy(path, desk.store)
    for path in desk.store.glob("search.sqlite*") if damage != "lacks and has too much" else ():
        path.unlink()
    if damage == "garbage":
        (desk.store / "search.sqlite").write_bytes(b"garbage" * 1000)
    assert states(desk.facts("doctor", "--check", code=1))["search"] == "failed"
    assert states(desk.facts("doctor", "--repair"))["search"] == "repaired"
    assert desk.facts("doctor", "--check")["healthy"]


def test_a_store_that_cannot_be_opened_is_told_with_what_to_do(desk: Desk) -> None:
    (desk.store / "data.mdb").write_bytes(b"something else" * 10_000)
    for flag in ("--check", "--repair"):
        done = desk.run("doctor", flag)
        assert_refused(done, 1, f"the store {desk.store} is damaged: data.mdb has no LMDB meta page")
        assert "move the store's directory away" in done.stderr


@pytest.fixture
def with_notes(desk: Desk) -> Desk:
    """Three documents more, in two folders."""
    for name in ("one/a.md", "one/b.md", "two/c.md"):
        desk.write(name, prose(len(name) + ord(name[-4])))
    assert desk.facts("index", "one", "two")["documents"]["added"] == 3
    return desk


def test_prune_removes_what_is_gone_and_a_dry_run_tells_the_same(with_notes: Desk) -> None:
    desk = with_notes
    chunks = desk.facts("stats")["chunks"]
    (desk.root / "one" / "a.md").unlink()
    planned = desk.facts("prune", "--dry-run")
    assert planned["documents"] == {
        "gone": [str(desk.root / "one" / "a.md")], "superseded": [], "missing_roots": [],
    }  # fmt: skip
    assert planned["records"] > 0
    assert planned["bytes"] > 10_000
    assert desk.facts("stats")["documents"] == 11
    assert desk.facts("prune") == planned
    assert desk.facts("stats")["documents"] == 10
    assert desk.facts("stats")["chunks"] < chunks
    assert desk.facts("prune")["records"] == 0
    assert desk.facts("doctor", "--check")["healthy"]
    shown = desk.run("prune", "--dry-run")
    assert "dry run: nothing was changed" in shown.stdout
    assert re.search(r"looking at records: (\d+)/\1 records", shown.stderr), "all of them were seen"
    assert desk.run("prune", "-q").stderr == ""


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_prune_keeps_the_documents_of_a_folder_that_is_missing_as_a_whole(with_notes: Desk, left: str) -> None:
    desk = with_notes
    shutil.rmtree(desk.root / "one")
    if left == "an empty folder":
        (desk.root / "one").mkdir()
    done = desk.run("prune", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["documents"] == {
        "gone": [], "superseded": [], "missing_roots": [{"path": str(desk.root / "one"), "documents": 2}],
    }  # fmt: skip
    told = f"its 2 documents are kept without --missing-roots: {desk.root / 'one'}\n"
    assert done.stderr.endswith(told)
    assert desk.facts("stats")["documents"] == 11
    assert len(desk.facts("prune", "--missing-roots")["documents"]["gone"]) == 2
    assert desk.facts("stats")["documents"] == 9


def test_prune_drops_records_of_earlier_settings_and_the_documents_stay(desk: Desk) -> None:
    desk.write("new.md", prose(1))
    assert desk.run("index", "new.md", "--bits", "4", "--force", "-q").returncode == 0
    before = desk.facts("stats")
    told = desk.facts("prune")
    assert (len(told["documents"]["superseded"]), told["documents"]["gone"]) == (8, [])
    after = desk.facts("stats")
    assert (before["documents"], after["documents"]) == (9, 9)
    assert after["chunks"] == before["chunks"] - told["records"]
    assert desk.facts("prune")["documents"]["superseded"] == []
    assert desk.facts("ask", QUESTION, "--top-k", "1")["documents"][0]["path"] == str(desk.docs / "on-call.md")
    assert desk.facts("index", desk.docs)["documents"]["updated"] == 7, "one was encoded with the question"
    assert desk.facts("doctor", "--check")["healthy"]


def test_a_document_from_standard_input_is_never_gone(desk: Desk) -> None:
    desk.run("index", "-", stdin=prose(3))
    assert desk.facts("prune")["documents"]["gone"] == []


def test_compact_gives_space_back_and_answers_stay_the_same(with_notes: Desk) -> None:
    desk = with_notes
    answer = desk.facts("ask", QUESTION, "-d", "on-call.md")["answer"]
    shutil.rmtree(desk.root / "one")
    desk.facts("prune", "--missing-roots")
    previous = os.umask(0)
    try:
        told = desk.facts("compact")
    finally:
        os.umask(previous)
    assert told["bytes"]["after"] < told["bytes"]["before"]
    assert told["bytes"]["after"] == (desk.store / "data.mdb").stat().st_size
    assert told["search_bytes"]["after"] <= told["search_bytes"]["before"]
    assert desk.facts("doctor", "--check")["healthy"]
    again = desk.facts("ask", QUESTION, "-d", "on-call.md")
    assert (again["answer"], again["documents"][0]["hit"]) == (answer, "exact")
    assert {stat.S_IMODE(path.stat().st_mode) for path in desk.store.iterdir()} == {0o600}


def test_a_new_store_is_private_under_an_open_umask(bare_desk: Desk) -> None:
    note = bare_desk.write("a.md", prose(1))
    done = bare_desk.run("index", note, "-q", preexec_fn=lambda: os.umask(0) and None)
    assert done.returncode == 0
    assert stat.S_IMODE(bare_desk.store.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in bare_desk.store.iterdir()}
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("command", ["index", "prune", "compact", "forget", "doctor"])
def test_commands_that_change_the_store_wait_for_one_another_or_give_up(desk: Desk, command: str) -> None:
    args: list[str | Path] = {
        "index": ["index", desk.docs, "-q"], "forget": ["forget", "access.md"], "doctor": ["doctor", "--repair", "-q"],
    }.get(command, [command, "-q"])  # fmt: skip
    with ChunkStore.open(desk.store) as store, store.writer_lock():
        refused = desk.run(*args, "--no-wait")
        assert_refused(refused, 75, "is busy: another process is writing to it")
        waiting = desk.start(*args)
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == WAITING
        assert waiting.poll() is None
    waiting.communicate()
    assert waiting.returncode == 0


def test_a_question_is_answered_and_kept_while_the_store_is_compacted_again_and_again(desk: Desk) -> None:
    asks = [desk.start("ask", QUESTION, "-d", "on-call.md", "--json") for _ in range(2)]
    while any(ask.poll() is None for ask in asks):
        assert desk.run("compact", "-q").returncode == 0
    told = [json.loads(ask.communicate()[0]) for ask in asks]
    assert [one["documents"][0]["hit"] for one in told] == ["exact", "exact"]
    assert desk.facts("stats")["asks"]["count"] == 2
    assert desk.facts("doctor", "--check")["healthy"]
