"""`kvboost index` run again: what changed is encoded, nothing else is, and without changes no model is loaded."""

import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from desks import SCRIPT, Desk, assert_refused, prose


def imported_modules(desk: Desk, *args: str | Path) -> set[str]:
    """Top-level names of everything that one run of the script imports."""
    command = [sys.executable, "-X", "importtime", SCRIPT, *args]
    done = subprocess.run(command, cwd=desk.root, env=desk.env, capture_output=True, text=True, check=True)
    return set(re.findall(r"^import time:.*\| +([A-Za-z_0-9]+)", done.stderr, re.MULTILINE))


def test_a_folder_without_changes_is_indexed_without_torch(desk: Desk) -> None:
    assert imported_modules(desk, "index", desk.docs) & {"torch", "transformers", "numpy"} == set()
    facts = desk.facts("index", desk.docs)
    assert facts["documents"] == {"added": 0, "updated": 0, "unchanged": 8, "removed": 0, "skipped": []}
    assert (facts["chunks"]["new"], facts["tokens_encoded"], facts["bytes_written"]) == (0, 0, 0)


def test_five_hundred_files_without_changes(desk: Desk) -> None:
    for number in range(500):
        desk.write(f"many/{number % 20}/{number}.md", "A note says that the pier is closed.\n")
    first = desk.facts("index", "many")
    assert first["documents"]["added"] == 500
    started = perf_counter()
    again = desk.facts("index", "many")
    print(f"second run over 500 files: {perf_counter() - started:.2f} s, {again['seconds']:.2f} s without start-up")
    assert (again["documents"]["unchanged"], again["chunks"]["new"]) == (500, 0)


def test_only_changed_chunks_are_encoded_and_of_a_renamed_file_the_first(desk: Desk) -> None:
    file = desk.write("notes/long.md", prose(1, 60))
    first = desk.facts("index", "notes")
    assert first["chunks"]["new"] > 10
    file.write_text(file.read_text().replace("Paragraph 30 ", "Paragraph thirty, corrected, "))
    edited = desk.facts("index", "notes")
    assert edited["documents"]["updated"] == 1
    assert 1 <= edited["chunks"]["new"] <= 3
    assert edited["chunks"]["new"] + edited["chunks"]["reused"] >= first["chunks"]["new"]
    file.rename(file.with_name("renamed.md"))
    renamed = desk.facts("index", "notes", "--prune")
    assert (renamed["documents"]["added"], renamed["documents"]["removed"]) == (1, 1)
    assert renamed["chunks"]["new"] == 1, "which begins with the name"
    assert 0 < renamed["tokens_encoded"] < 600 < first["tokens_encoded"]
    file.with_name("renamed.md").rename(file)
    shown = desk.run("index", "notes").stdout
    assert re.search(r"^exact behind the preamble: .* tokens\nwritten: \d+\.\d MB$", shown, re.MULTILINE)


def test_prune_removes_what_is_gone_below_its_paths_and_nothing_else(desk: Desk) -> None:
    text = (desk.docs / "access.md").read_text()
    kept, gone = (desk.write(f"notes/{name}.md", text) for name in ("kept", "gone"))
    assert desk.facts("index", kept, gone)["chunks"]["new"] == 2, "the first of each, which begins with the name"
    gone.unlink()
    assert desk.facts("index", desk.docs, "--prune")["documents"]["removed"] == 0
    assert desk.facts("index", "notes", "--prune", "--dry-run")["documents"]["removed"] == 1
    assert desk.facts("stats")["documents"] == 10
    assert desk.facts("index", "notes", "--prune")["documents"]["removed"] == 1
    assert desk.facts("stats")["documents"] == 9


def test_the_stores_own_files_are_no_documents(desk: Desk) -> None:
    desk.write("note.md", (desk.docs / "access.md").read_text())
    assert desk.facts("index", ".", "--dry-run")["documents"]["added"] == 1


def test_a_dry_run_tells_what_would_be_done_and_writes_nothing(desk: Desk) -> None:
    desk.write("notes/a.md", prose(1))
    before = {path.name: path.read_bytes() for path in desk.store.iterdir() if path.name != "lock.mdb"}
    facts = desk.facts("index", "notes", "--dry-run")
    assert facts["documents"]["added"] == 1
    assert (facts["chunks"]["new"] > 0, facts["tokens_encoded"], facts["bytes_written"]) == (True, 0, 0)
    after = {path.name: path.read_bytes() for path in desk.store.iterdir() if path.name in before}
    assert after == before


def test_a_dry_run_without_a_store_makes_none(bare_desk: Desk) -> None:
    assert bare_desk.facts("index", bare_desk.docs, "--dry-run")["documents"]["added"] == 8
    assert not bare_desk.store.exists()


def test_other_settings_are_refused_with_both_values_until_forced(desk: Desk) -> None:
    fact = f"the store {desk.store} was built with other settings: bits is 8 there and 4 here"
    assert_refused(desk.run("index", desk.docs, "--bits", "4"), 1, fact)
    refused = desk.run("index", desk.docs, "--contexts", "0")
    assert_refused(refused, 1, "contexts is 2 there and 0 here")
    assert "--force" in refused.stderr
    assert desk.facts("index", desk.docs)["documents"]["unchanged"] == 8
    bytes_per_token = desk.facts("stats")["bytes_per_token"]
    facts = desk.facts("index", desk.docs, "--bits", "4", "--force")
    assert (facts["documents"]["updated"], facts["chunks"]["reused"]) == (8, 0)
    stats = desk.facts("stats")
    assert stats["models"][0]["recipe"]["bits"] == 4
    assert stats["bytes_per_token"] < bytes_per_token
    assert desk.facts("index", desk.docs)["documents"]["unchanged"] == 8
