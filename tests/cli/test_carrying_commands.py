"""`kvboost export` and `kvboost import`, run as a user does."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from desks import SCRIPT, Desk, assert_refused, prose

HANDBOOK_DOCUMENTS = 8


def at(desk: Desk, name: str) -> Desk:
    """The same desk with another store."""
    return Desk(desk.root, desk.docs, desk.root / name, desk.env | {"KVBOOST_STORE": str(desk.root / name)})


def test_a_store_travels_as_a_file(desk: Desk) -> None:
    told = desk.facts("export", "all.kvb")
    assert told["documents"] == {"exported": HANDBOOK_DOCUMENTS, "exact": HANDBOOK_DOCUMENTS, "skipped": []}
    assert told["bytes"] == (desk.root / "all.kvb").stat().st_size
    assert (desk.root / "all.kvb").stat().st_mode & 0o777 == 0o600
    there = at(desk, "there")
    told = there.facts("import", "all.kvb")
    assert told["documents"] == {"added": HANDBOOK_DOCUMENTS, "updated": 0, "unchanged": 0, "kept": 0, "skipped": []}
    assert told["bytes_written"] > 0
    answer = there.facts("ask", "Who is on call?", "-d", "docs/access.md", "-d", "on-call.md")
    assert [document["hit"] for document in answer["documents"]] == ["exact", "content"]
    found = there.facts("ask", "Who is on call this week?", "--top-k", "2")
    assert len(found["documents"]) == 2
    assert there.facts("doctor")["healthy"]
    assert there.facts("import", "all.kvb")["documents"]["unchanged"] == HANDBOOK_DOCUMENTS


def test_a_bundle_goes_through_a_pipe(desk: Desk) -> None:
    there = at(desk, "there")
    line = f"'{SCRIPT}' export - -d on-call.md | '{SCRIPT}' import - --store there --json"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=desk.root, env=desk.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"]["added"] == 1
    assert "exported: 1 documents" in done.stderr
    assert there.facts("stats")["documents"] == 1


def test_a_store_is_imported_by_its_directory(desk: Desk) -> None:
    there = at(desk, "there")
    told = there.facts("import", desk.store)
    assert told["documents"]["added"] == HANDBOOK_DOCUMENTS
    again = there.facts("index", desk.docs)
    assert (again["documents"]["unchanged"], again["tokens_encoded"]) == (HANDBOOK_DOCUMENTS, 0)
    assert_refused(there.run("import", there.store), 2, "a store cannot be imported into itself")


def test_shards_are_indexed_apart_and_merged(bare_desk: Desk) -> None:
    desk = at(bare_desk, "merged")
    planned = desk.facts("index", desk.docs, "--dry-run")
    counts = []
    for number in (1, 2, 3):
        shard = at(desk, f"shard{number}")
        told = shard.facts("index", desk.docs, "--shard", f"{number}/3")
        counts.append(told["documents"]["added"])
        desk.facts("import", shard.store) if counts[-1] else None
    assert sum(counts) == planned["documents"]["added"] == HANDBOOK_DOCUMENTS
    assert desk.facts("index", desk.docs)["documents"]["unchanged"] == HANDBOOK_DOCUMENTS
    empty = at(desk, "empty").run("index", desk.docs / "access.md", "--shard", "1/1000")
    assert (empty.returncode, "in other shards: 1 documents" in empty.stdout) == (0, True)


@pytest.mark.parametrize("shard", ["0/3", "4/3", "x", "1"])
def test_a_false_shard_is_a_usage_error(bare_desk: Desk, shard: str) -> None:
    done = bare_desk.run("index", bare_desk.docs, "--shard", shard)
    assert done.returncode == 2
    assert "'--shard'" in done.stderr
    assert not bare_desk.store.exists()


def test_a_dry_run_makes_no_store(desk: Desk) -> None:
    desk.facts("export", "all.kvb")
    there = at(desk, "there")
    done = there.run("import", "all.kvb", "--dry-run")
    assert (done.returncode, "8 added" in done.stdout, "nothing was written" in done.stdout) == (0, True, True)
    assert not there.store.exists()


def test_a_garbled_bundle_is_one_error_and_makes_no_store(desk: Desk) -> None:
    desk.facts("export", "all.kvb")
    data = (desk.root / "all.kvb").read_bytes()
    there = at(desk, "there")
    for number, garbled in enumerate(
        [data[:-5], data[: len(data) // 2], data[:1000] + b"?" + data[1001:], data + b"x"]
    ):
        (desk.root / "bad.kvb").write_bytes(garbled)
        done = there.run("import", "bad.kvb")
        assert_refused(done, 1, "the bundle bad.kvb is damaged: ")
        assert not there.store.exists(), number
    assert_refused(there.run("import", desk.docs / "access.md"), 2, "this is not a kvboost bundle: ")
    assert_refused(there.run("import", "absent.kvb"), 1, "No such file or directory: absent.kvb")


def test_another_model_is_refused_by_name(desk: Desk, model_dirs: tuple[Path, Path]) -> None:
    desk.facts("export", "all.kvb")
    there = at(desk, "there")
    done = there.run("import", "all.kvb", "--model", str(model_dirs[1]))
    assert_refused(done, 1, "all.kvb holds KV of the model one in ")
    assert not there.store.exists()
    done = there.with_env(KVBOOST_BITS="4").run("import", "all.kvb")
    assert_refused(done, 1, "all.kvb was made with other settings than the store's: bits is 8 there and 4 here")


def test_a_new_store_takes_the_settings_of_the_bundle(desk: Desk) -> None:
    four = at(desk, "four").with_env(KVBOOST_STORE=str(desk.root / "four"), KVBOOST_BITS="4", KVBOOST_CONTEXTS="1")
    four.facts("index", desk.docs / "access.md", "--no-exact")
    four.facts("export", "four.kvb")
    there = at(desk, "there")
    there.facts("import", "four.kvb")
    recipe = there.facts("stats")["models"][0]["recipe"]
    assert (recipe["bits"], recipe["contexts"], recipe["exact"]) == (4, 1, False)


def test_only_a_bundle_is_overwritten(desk: Desk) -> None:
    notes = desk.write("notes.txt", "precious")
    done = desk.run("export", notes)
    assert done.returncode == 2
    assert "is not overwritten" in done.stderr
    assert notes.read_text() == "precious"
    desk.facts("export", "one.kvb", "-d", "access.md")
    first = (desk.root / "one.kvb").read_bytes()
    desk.facts("export", "one.kvb", "-d", "access.md")
    assert (desk.root / "one.kvb").read_bytes() == first
    assert sorted(path.name for path in desk.root.iterdir()) == ["notes.txt", "one.kvb", "store"]


def test_a_failed_export_leaves_no_file(desk: Desk) -> None:
    assert_refused(desk.run("export", "out.kvb", "-d", "absent.md"), 2, "absent.md")
    empty = at(desk, "empty")
    assert_refused(empty.run("export", "out.kvb"), 1, "there is no store at ")
    assert sorted(path.name for path in desk.root.iterdir()) == ["store"]


def test_what_cannot_be_exported_is_told_and_counts_as_failed(desk: Desk) -> None:
    done = desk.run("export", "-", "--json")
    assert done.returncode == 2
    desk.write("two/docs/access.md", prose(3))
    desk.facts("index", "two/docs")
    done = desk.run("export", "all.kvb", "--json")
    assert done.returncode == 3
    told = json.loads(done.stdout)["documents"]
    assert (told["exported"], len(told["skipped"])) == (HANDBOOK_DOCUMENTS, 1)
    assert "another document has the same name in the bundle" in told["skipped"][0]["reason"]


def test_a_killed_import_is_finished_by_the_next_one(desk: Desk) -> None:
    for number in range(12):
        desk.write(f"reports/{number}.md", prose(number, 12))
    desk.facts("index", "reports")
    desk.facts("export", "all.kvb")
    there = at(desk, "there")
    for delay_s in (0.0, 0.05, 0.1):
        process = there.start("import", "all.kvb")
        while not (there.store / "kvboost-store.json").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    told = there.facts("import", "all.kvb")["documents"]
    assert told["added"] + told["unchanged"] == HANDBOOK_DOCUMENTS + 12
    assert there.facts("doctor")["healthy"]
