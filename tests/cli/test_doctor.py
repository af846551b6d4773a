"""`kvboost doctor`: a line for each check, the next step for each failure, and an exit code for scripts."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import lmdb
import pytest
from desks import Desk
from test_fidelity_gate import ANNOUNCEMENT

ROOT = Path(__file__).parents[2]
NAMES = ["versions", "device", "model", "store", "entries", "search", "match", "fidelity"]


def states(told: Any) -> dict[str, str]:
    """State by check; each failure has a next step, and nothing else has one."""
    for check in told["checks"]:
        assert list(check) == ["name", "state", "detail", "next_step"]
        assert (check["next_step"] is not None) == (check["state"] == "failed"), check
    assert told["healthy"] == all(check["state"] != "failed" for check in told["checks"])
    return {check["name"]: check["state"] for check in told["checks"]}


def detail(told: Any, name: str) -> str:
    return str(next(check["detail"] for check in told["checks"] if check["name"] == name))


def test_a_desk_in_order_is_healthy_and_its_fidelity_is_that_of_stats(desk: Desk) -> None:
    told = desk.facts("doctor")
    assert states(told) == dict.fromkeys(NAMES, "ok")
    assert told["fidelity"] == desk.facts("stats")["fidelity"]
    assert re.fullmatch(r"8 documents, \d+ chunks, \d+ exact records: every header is sound", detail(told, "entries"))
    assert f"{desk.store}, format 2, 8 documents" in detail(told, "store")
    done = desk.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == NAMES
    assert re.search(r"^fidelity +ok +KL 0\.\d+ nats", done.stdout, re.MULTILINE)


def test_without_a_store_the_rest_is_checked_and_no_store_is_made(bare_desk: Desk) -> None:
    told = bare_desk.facts("doctor")
    unchecked = dict.fromkeys(("store", "entries", "search", "match"), "not checked")
    assert states(told) == dict.fromkeys(NAMES, "ok") | unchecked
    assert told["healthy"] is True
    assert detail(told, "store").startswith(f"there is no store at {bare_desk.store}; `kvboost index PATH`")
    assert told["fidelity"]["passed"] is True
    assert not bare_desk.store.exists()


def test_recheck_measures_anew(desk: Desk) -> None:
    known = desk.facts("doctor")["fidelity"]
    done = desk.run("doctor", "--recheck")
    assert (done.returncode, done.stderr) == (0, f"{ANNOUNCEMENT}\n")
    assert desk.facts("doctor")["fidelity"]["at"] > known["at"]


def test_a_model_that_fails_the_gate_is_unhealthy(failing: Desk) -> None:
    told = failing.facts("doctor", code=1)
    assert states(told)["fidelity"] == "failed"
    assert detail(told, "fidelity").startswith(told["fidelity"]["reason"])
    assert f"{told['fidelity']['kl_mean']:.2f} nats" in told["fidelity"]["reason"]


def test_a_store_of_another_model_is_told_with_what_to_do(desk: Desk, model_dirs: tuple[Path, Path]) -> None:
    done = desk.run("doctor", "--model", model_dirs[1])
    assert done.returncode == 1
    told = r"^match +failed +the store .* was built with the model one in .*\n +next: give --model"
    assert re.search(told, done.stdout, re.MULTILINE)
    assert re.search(r"^fidelity +not checked", done.stdout, re.MULTILINE)


def test_a_model_that_is_gone_is_told_and_the_store_is_looked_into(desk: Desk) -> None:
    told = desk.with_env(KVBOOST_MODEL="").facts("doctor", "--model", "./nowhere", code=1)
    assert states(told) == dict.fromkeys(NAMES, "ok") | {
        "model": "failed", "match": "not checked", "fidelity": "not checked",
    }  # fmt: skip
    assert detail(told, "model") == "there is no model directory: ./nowhere"


def damage_headers(store: Path, database: str, count: int) -> None:
    """Flip a bit in the last headers of a database, behind the store's back."""
    with lmdb.open(str(store), map_size=1 << 30, max_dbs=16, create=False) as environment:
        handle = environment.open_db(database.encode(), create=False)
        with environment.begin(write=True, db=handle) as transaction:
            for key in [key for key, _value in transaction.cursor() if len(key) == 32][-count:]:
                data = bytearray(transaction.get(key))
                data[30] ^= 0x40
                transaction.put(key, bytes(data))


def test_what_is_damaged_in_a_store_is_counted(desk: Desk) -> None:
    damage_headers(desk.store, "chunks", 2)
    damage_headers(desk.store, "positions", 1)
    for path in desk.store.glob("search.sqlite*"):
        path.unlink()
    told = desk.facts("doctor", code=1)
    assert [name for name, state in states(told).items() if state == "failed"] == ["entries", "search"]
    assert detail(told, "entries") == "damaged or missing: 0 documents' entries and 3 records' headers"
    assert desk.facts("index", desk.docs)["documents"]["skipped"] == []
    assert desk.facts("doctor")["healthy"] is True, "the next step was the right one"


def test_documents_that_the_search_index_lacks_are_counted(desk: Desk) -> None:
    (desk.root / "elsewhere").mkdir()
    for path in desk.store.glob("search.sqlite*"):
        shutil.move(path, desk.root / "elsewhere")
    desk.write("new.md", "The tide turns at nine.\n")
    assert desk.run("index", "new.md", "-q").returncode == 0
    for path in desk.store.glob("search.sqlite*"):
        path.unlink()
    for path in (desk.root / "elsewhere").iterdir():
        shutil.move(path, desk.store)
    told = desk.facts("doctor", code=1)
    assert detail(told, "search") == "the search index lacks documents: 1 of 9"


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_path_that_is_no_store_fails_and_is_left_alone(bare_desk: Desk, place: str) -> None:
    bare_desk.write("file", "a file"), bare_desk.write("folder/note.md", "a note")
    told = bare_desk.facts("doctor", "--store", place, code=1)
    found = states(told)
    assert (found["store"], found["match"], found["fidelity"]) == ("failed", "not checked", "ok")
    assert "this is not a kvboost store" in detail(told, "store")
    assert [path.name for path in (bare_desk.root / "folder").iterdir()] == ["note.md"]


def test_a_library_that_is_not_installed_is_told_and_nothing_else_is_tried(bare_desk: Desk) -> None:
    libraries = bare_desk.root / "libraries"
    libraries.mkdir()
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(folder).iterdir():
            if not path.name.startswith("lmdb") and not (libraries / path.name).exists():
                (libraries / path.name).symlink_to(path)
    script = f"import sys; sys.path += [{str(ROOT)!r}, {str(libraries)!r}]; from kvboost_cli.main import run; run()"
    command = [sys.executable, "-S", "-c", script, "doctor", "--json"]
    done = subprocess.run(command, cwd=bare_desk.root, env=bare_desk.env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    told = json.loads(done.stdout)
    assert states(told) == dict.fromkeys(NAMES, "not checked") | {"versions": "failed"}
    assert detail(told, "versions") == "a library is not installed: lmdb"


def test_a_bad_setting_is_a_usage_error(bare_desk: Desk) -> None:
    assert bare_desk.run("doctor", "--device", "abacus").returncode == 2
