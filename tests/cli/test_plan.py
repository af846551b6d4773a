"""`kvboost plan` and `kvboost index --dry-run`: sizes, budgets, and what indexing will take."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from desks import SCRIPT, Desk, assert_refused

GPT2_SMALL = ("--layers", "12", "--kv-heads", "12", "--head-dim", "64")


def test_the_figures_that_others_tell_come_out(desk: Desk) -> None:
    gpt2 = desk.facts("plan", *GPT2_SMALL, "--context", "1024", "--bits", "16")
    assert gpt2["cache"] == [{"bits": 16, "bytes_per_token": 36 * 1024, "bytes": 36 * 2**20, "tokens_in_budget": None}]
    assert "36.0 MiB" in desk.run("plan", *GPT2_SMALL, "--context", "1024").stdout
    wide = ("--layers", "60", "--kv-heads", "128", "--head-dim", "128", "--context", "100000")
    assert desk.facts("plan", *wide)["cache"][0]["bytes"] == 393_216_000_000


def test_the_plan_of_the_store_is_what_the_store_takes(desk: Desk) -> None:
    told = desk.facts("plan", "--context", "100", "--budget", "1GB")
    stats = desk.facts("stats")
    assert told["model"] == "one", "the store's own model"
    (at_8,) = [size for size in told["store"]["sizes"] if size["bits"] == 8]
    assert at_8["bytes_per_token"] == pytest.approx(stats["bytes"]["live"] / stats["tokens"], rel=0.3)
    assert at_8["tokens_in_budget"] == int(1e9 / at_8["bytes_per_token"])


def test_a_dry_run_foretells_the_run_and_after_one_also_its_time(desk: Desk) -> None:
    desk.write("new/tides.md", "The tide turns at nine. " * 60)
    seen = desk.facts("plan", "new", "--budget", "1MB")["collection"]
    dry = desk.facts("index", "new", "--dry-run")
    assert dry["planned"] == pytest.approx(seen["planned"], abs=8), "the time is written with more or fewer digits"
    assert seen["planned"]["seconds"] > 0, "the desk's own index run was timed"
    shown = desk.run("index", "new", "--dry-run")
    assert re.search(r"to encode: \d+ tokens, and \d+ exact ones\nto write: .*\ntime: about ", shown.stdout)
    done = desk.facts("index", "new")
    assert done["planned"] is None
    assert (done["tokens_encoded"], done["tokens_exact"]) == (
        seen["planned"]["content_tokens"],
        seen["planned"]["exact_tokens"],
    )
    assert done["bytes_written"] == pytest.approx(seen["planned"]["value_bytes"], abs=8), "for the same reason"


def test_without_a_run_before_the_time_is_not_known_and_no_store_is_made(bare_desk: Desk) -> None:
    plain = bare_desk.run("plan", bare_desk.docs, "--budget", "1kB")
    assert plain.returncode == 0, plain.stderr
    assert "time: not known until something was indexed" in plain.stdout
    assert "does not fit the budget" in plain.stdout
    assert not bare_desk.store.exists()


def test_a_model_that_cannot_be_stitched_has_a_cache_all_the_same(desk: Desk) -> None:
    config = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024}
    path = desk.write("gpt2.json", json.dumps(config))
    told = desk.facts("plan", "--model", path)
    assert (told["model"], told["context"], told["cache"][0]["bytes"]) == ("gpt2", 1024, 36 * 2**20)
    assert told["store"]["sizes"] == []
    assert told["store"]["refused"].endswith("not: gpt2")
    odd = desk.facts("plan", "--layers", "1", "--kv-heads", "1", "--head-dim", "12")
    assert odd["cache"][0]["bytes_per_token"] == 48
    assert odd["store"]["refused"] == "no quantization group divides the model's head size: 12"
    shown = desk.run("plan", "--model", path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "kvboost's store: not for this model; " in shown.stdout


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        (("--layers", "2"), "give --layers, --kv-heads and --head-dim together"),
        ((*GPT2_SMALL, "--model", "x"), "sizes stand for a model that is not here"),
        ((*GPT2_SMALL, "docs"), "sizes stand for a model that is not here"),
        (("docs", "--bits", "3"), "the store keeps 4, 8 or 16 bits, not 3"),
        (("--budget", "much"), "--budget should be a size such as 500MB or 2GiB: 'much'"),
        (("--budget", "0"), "--budget should be a size such as 500MB or 2GiB: '0'"),
        (("missing",), "missing"),
    ],
)
def test_what_cannot_be_planned_is_refused(desk: Desk, args: tuple[str, ...], fact: str) -> None:
    assert_refused(desk.run("plan", *args), 2, fact)


def test_a_model_that_is_not_here_is_not_fetched(desk: Desk) -> None:
    assert_refused(
        desk.run("plan", "--model", "org/model"), 1, "the hub's cache has no config of this model: org/model"
    )
    assert_refused(desk.run("plan", "--model", "./nowhere"), 1, "there is no model directory: ./nowhere")


def test_sizes_are_told_without_torch(desk: Desk) -> None:
    for args in (GPT2_SMALL, ("--budget", "1GB"), ("docs",)):
        command = [sys.executable, "-X", "importtime", SCRIPT, "plan", *args]
        env = desk.env | {"PATH": str(Path(sys.executable).parent)}
        done = subprocess.run(command, cwd=desk.docs.parent, env=env, capture_output=True, text=True, check=True)
        imported = set(re.findall(r"^import time:.*\| +([A-Za-z_0-9]+)", done.stderr, re.MULTILINE))
        assert imported & {"torch", "transformers", "rich"} <= {"rich"}
