"""A store that is damaged, read-only or on a full disk: told with a way out, and nothing else is lost."""

import sqlite3
import struct
from pathlib import Path

import pytest
from desks import Desk, assert_refused, assert_told, limit_file_size, prose, without_root_rights

QUESTION = "Who is on call, and when is the week handed over?"


@pytest.mark.parametrize("num_bytes", [0, 20_000, -50_000])
def test_a_data_file_that_was_cut_is_told_with_the_way_out(desk: Desk, num_bytes: int) -> None:
    data = desk.store / "data.mdb"
    with open(data, "r+b") as file:
        file.truncate(num_bytes if num_bytes >= 0 else data.stat().st_size + num_bytes)
    before = data.read_bytes()
    for args in (("ask", QUESTION), ("stats",), ("index", str(desk.docs))):
        done = desk.run(*args)
        assert_refused(done, 1, f"the store {desk.store} is damaged: data.mdb ")
        assert "move the store's directory away" in done.stderr
    assert data.read_bytes() == before


def test_scattered_damage_is_never_a_traceback_and_moving_the_store_away_helps(desk: Desk) -> None:
    data = desk.store / "data.mdb"
    content = bytearray(data.read_bytes())
    for place in range(8192, len(content), 997):
        content[place] ^= 0xFF
    data.write_bytes(bytes(content))
    for args in (("stats",), ("index", str(desk.docs), "--force")):
        done = desk.run(*args)
        assert done.returncode in (0, 1)
        if done.returncode:
            assert_told(done, "damaged")
    desk.store.rename(desk.root / "away")
    assert desk.facts("index", desk.docs)["documents"]["added"] == 8


def test_damaged_records_are_computed_with_the_prompt_and_stored_anew(desk: Desk) -> None:
    assert damage_large_values(desk.store / "data.mdb") > 10
    args = ("ask", QUESTION, "-d", str(desk.docs / "on-call.md"))
    first, second = desk.facts(*args), desk.facts(*args)
    assert [told["documents"][0]["hit"] for told in (first, second)] == ["miss", "exact"]
    assert first["tokens"]["exact"] < second["tokens"]["exact"]


def damage_large_values(path: Path) -> int:
    """Flip a byte of each value that has pages of its own, JSON left out; the number of values."""
    content, page, number = bytearray(path.read_bytes()), 4096, 0
    place = 2 * page
    while place < len(content):
        flags, num_pages = struct.unpack_from("<HI", content, place + 10)
        is_run = flags & 4 and 1 < num_pages < 100
        if is_run and content[place + 16] not in b"{[":
            content[place + page + 100] ^= 0xFF
            number += 1
        place += page * (num_pages if is_run else 1)
    path.write_bytes(bytes(content))
    return number


@pytest.mark.parametrize("damage", ["missing", "another database"])
def test_a_search_index_that_cannot_be_used_is_made_anew(desk: Desk, damage: str) -> None:
    index = desk.store / "search.sqlite"
    for path in desk.store.glob("search.sqlite*"):
        path.unlink()
    if damage == "another database":
        with sqlite3.connect(index) as database:
            database.execute("CREATE TABLE other (x)")
        database.close()
    told = desk.facts("ask", QUESTION, "--top-k", "1")
    assert told["documents"][0]["path"] == str(desk.docs / "on-call.md")


def test_a_store_that_may_not_be_written_still_answers_and_says_what_is_lost(desk: Desk) -> None:
    new = desk.write("new.md", prose(1))
    for path in (*desk.store.iterdir(), desk.store):
        path.chmod(0o555 if path.is_dir() else 0o444)
    prefix = without_root_rights()
    done = desk.run("ask", QUESTION, "-d", new, "-d", desk.docs / "on-call.md", "-q", prefix=prefix)
    assert done.returncode == 0
    assert done.stdout.strip()
    assert done.stderr == f"kvboost: warning: the store is read-only, so nothing was kept: {desk.store}\n"
    assert desk.run("stats", prefix=prefix).returncode == 0
    assert_refused(desk.run("index", new, prefix=prefix), 1, f"the store cannot be written here: {desk.store}")
    desk.store.chmod(0o755)


def test_a_full_disk_keeps_what_was_stored_and_indexing_goes_on_later(bare_desk: Desk) -> None:
    limit = limit_file_size(600_000)
    full = bare_desk.run("index", bare_desk.docs, "-q", preexec_fn=limit)
    assert full.returncode == 1
    assert_told(full, f"the store {bare_desk.store} is full: no space left on its disk")
    kept = bare_desk.facts("stats")
    assert 0 < kept["documents"] < 8
    facts = bare_desk.facts("index", bare_desk.docs)
    assert facts["documents"]["unchanged"] == kept["documents"]
    assert facts["documents"]["added"] == 8 - kept["documents"]
    assert facts["chunks"]["reused"] >= kept["chunks"]


def test_an_answer_comes_although_the_disk_is_full(desk: Desk) -> None:
    new = desk.write("new.md", prose(1, 40))
    done = desk.run("ask", QUESTION, "-d", new, "-q", preexec_fn=limit_file_size(200_000))
    assert done.stdout.strip(), "the answer was given before anything was kept"
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert desk.facts("stats")["documents"] == 8
