"""What cannot work is refused in one line with the next step and the right exit code, before anything is written."""

import shutil
from pathlib import Path

import pytest
import torch
from desks import Desk, assert_refused, without_root_rights


@pytest.mark.parametrize(
    ("command", "args", "fact"),
    [
        ("index", ("--bits", "3"), "--bits should be 4, 8 or 16: 3"),
        ("index", ("--bits", "many"), "'--bits'"),
        ("index", ("--contexts", "-1"), "--contexts should be a whole number from 0 to 64: -1"),
        ("ask", ("--ratio", "2"), "--ratio should be a number over 0, up to 1: 2.0"),
        ("ask", ("--ratio", "0"), "--ratio should be a number over 0, up to 1: 0.0"),
        ("ask", ("--repair", "nonsense"), "--repair should be"),
        ("ask", ("--dtype", "nonsense"), "--dtype should be"),
        ("ask", ("--device", "abacus"), "--device should be"),
        ("ask", ("--max-tokens", "0"), "--max-tokens should be a whole number, 1 or more: 0"),
        ("ask", ("--top-k", "0"), "--top-k should be a whole number, 1 or more: 0"),
        ("ask", ("--temperature", "-1"), "--temperature should be a number from 0 to 100: -1.0"),
        ("ask", ("--temperature", "nan"), "--temperature should be"),
        ("ask", ("--seed", str(2**80)), "'--seed'"),
        ("ask", ("--seed", "-1"), "'--seed'"),
        ("ask", ("-d", ""), "a document's name is empty"),
    ],
)
def test_a_bad_value_is_a_usage_error(bare_desk: Desk, command: str, args: tuple[str, ...], fact: str) -> None:
    assert_refused(bare_desk.run(command, bare_desk.docs / "access.md", *args), 2, fact)
    assert not bare_desk.store.exists()


@pytest.mark.parametrize("args", [("ask", "Why?"), ("stats",)])
def test_a_store_that_is_not_there_is_told_with_the_way_to_make_one(bare_desk: Desk, args: tuple[str, ...]) -> None:
    done = bare_desk.run(*args)
    assert_refused(done, 1, f"there is no store at {bare_desk.store}")
    assert "kvboost index" in done.stderr
    assert not bare_desk.store.exists()


@pytest.mark.parametrize("command", ["index", "ask", "stats"])
@pytest.mark.parametrize("place", ["file", "file/below", "folder"])
def test_a_path_that_is_no_store_is_refused_and_left_alone(bare_desk: Desk, command: str, place: str) -> None:
    file, note = bare_desk.write("file", "a file"), bare_desk.write("folder/note.md", "a note")
    args = () if command == "stats" else (str(bare_desk.docs / "access.md"),)
    fact = "there is no store at" if place == "file/below" and command != "index" else "this is not a kvboost store:"
    assert_refused(bare_desk.run(command, *args, "--store", place), 1, f"{fact} {bare_desk.root / place}")
    assert (file.read_text(), note.read_text()) == ("a file", "a note")
    assert list(note.parent.iterdir()) == [note]


def test_a_store_of_another_model_is_refused_with_both_names(desk: Desk, model_dirs: tuple[Path, Path]) -> None:
    before = desk.facts("stats")["documents"], desk.store.joinpath("data.mdb").read_bytes()
    for args in (("index", str(desk.docs)), ("ask", "Why?")):
        done = desk.run(*args, "--model", model_dirs[1])
        assert_refused(done, 1, f"the store {desk.store} was built with the model one in ")
        assert "not with other in " in done.stderr
    assert (desk.facts("stats")["documents"], desk.store.joinpath("data.mdb").read_bytes()) == before


def test_a_store_of_the_same_model_in_another_dtype_is_refused(desk: Desk) -> None:
    assert_refused(desk.run("index", desk.docs, "--dtype", "float16"), 1, "not with one in float16")


def test_a_directory_that_holds_no_model_is_refused(bare_desk: Desk, model_dirs: tuple[Path, Path]) -> None:
    (bare_desk.root / "empty").mkdir()
    shutil.copytree(model_dirs[0], bare_desk.root / "no-weights", ignore=shutil.ignore_patterns("*.safetensors"))
    for model, fact in {
        "./empty": "config.json is missing",
        "./no-weights": "the model lacks safetensors weights",
        "./nowhere": "there is no model directory: ./nowhere",
        "no-such-model": "no-such-model",
    }.items():
        assert_refused(bare_desk.run("index", bare_desk.docs, "--model", model), 1, fact)
    assert not bare_desk.store.exists()


def test_the_default_model_that_is_not_fetched_is_told_with_the_command_that_fetches_it(bare_desk: Desk) -> None:
    done = bare_desk.with_env(KVBOOST_MODEL="").run("index", bare_desk.docs)
    assert_refused(done, 1, "the model is not fetched yet: SmolLM2-135M-Instruct")
    assert "kvboost models pull" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_not_there_is_refused(desk: Desk) -> None:
    assert_refused(
        desk.run("ask", "Why?", "-d", desk.docs / "access.md", "--device", "cuda"), 1, "no such device: cuda"
    )


def test_a_place_that_cannot_be_written_is_refused(bare_desk: Desk) -> None:
    (bare_desk.root / "fixed").mkdir(mode=0o555)
    done = bare_desk.run("index", bare_desk.docs, "--store", "fixed/store", prefix=without_root_rights())
    assert_refused(done, 1, f"the store cannot be written here: {bare_desk.root}/fixed/store")


def test_a_store_that_may_not_be_read_is_refused(desk: Desk) -> None:
    desk.store.chmod(0)
    for args in (("ask", "Why?"), ("stats",), ("index", str(desk.docs))):
        done = desk.run(*args, prefix=without_root_rights())
        assert_refused(done, 1, f"the store {desk.store} cannot be opened: permission denied")
    desk.store.chmod(0o700)
