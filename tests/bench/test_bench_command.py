"""`kvboost bench quality` as a user runs it: the real script, a tiny model, a small folder."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import made_up_run, on_another_machine

SCRIPT = Path(sys.executable).with_name("kvboost")
SMALL = ("--n", "2", "--documents", "2", "--passage-tokens", "100", "--dtype", "float32", "--bits", "16")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bench(kvboost: Run, bench_model: Path, tmp_path: Path) -> Run:
    """`kvboost bench quality` with the tiny model; temporary files go where the test can see them."""
    (tmp_path / "tmp").mkdir()
    env = {"KVBOOST_MODEL": str(bench_model), "TMPDIR": str(tmp_path / "tmp"), "OMP_NUM_THREADS": "1"}

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        return kvboost("bench", "quality", *args, env=env)

    return run


def facts_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def save_run(path: Path, *tasks: str) -> Path:
    path.write_text(json.dumps(made_up_run(*tasks).to_json()), encoding="utf-8")
    return path


def test_a_run_prints_json_that_another_shows_and_draws(bench: Run, bench_docs: Path, tmp_path: Path) -> None:
    variants = ("--variant", "alone/cacheblend:0.15", "--variant", "selective:1.0")
    done = bench("--docs", bench_docs, "--tasks", "fact,summary", *SMALL, *variants, "--json")
    facts = facts_of(done)
    assert [task["task"] for task in facts["tasks"]] == ["fact", "summary"]
    assert [(prompt["task"], prompt["number"]) for prompt in facts["prompts"]] == [
        ("fact", 0), ("fact", 1), ("summary", 0), ("summary", 1),
    ]  # fmt: skip
    for task in facts["tasks"]:
        baseline, everything = task["variants"]
        assert (baseline["variant"], everything["variant"]) == ("alone/cacheblend:0.15", "selective:1")
        assert baseline["kl_ratio"] == [1.0, 1.0, 1.0]
        assert everything["kl_mean"][2] < 1e-6
        assert everything["top1_agreement"] == [1.0, 1.0, 1.0]
    assert "fact, asking: 2/2 prompts" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []

    (tmp_path / "run.json").write_text(done.stdout)
    shown = bench("--from", tmp_path / "run.json", "--plot", tmp_path / "plot.png")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^fact: 2 prompts of \d+ tokens; full prefill: \d+% right, TTFT \d+ ms$", shown.stdout, re.M)
    assert re.search(r"^B: cacheblend 15 %, alone +0\.\d{4} \(0\.\d{4}-0\.\d{4}\) +1\.00 ", shown.stdout, re.M)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert facts_of(bench("--from", tmp_path / "run.json", "--json")) == facts


def test_saved_runs_are_merged(bench: Run, tmp_path: Path) -> None:
    one, two = save_run(tmp_path / "one.json", "fact"), save_run(tmp_path / "two.json", "code", "list")
    facts = facts_of(bench("--from", one, "--from", two, "--json", "--plot", tmp_path / "plot.svg", "-q"))
    assert [task["task"] for task in facts["tasks"]] == ["fact", "code", "list"]
    assert [run["tasks"] for run in facts["runs"]] == [["fact"], ["code", "list"]]
    assert "<svg" in (tmp_path / "plot.svg").read_text()


def test_a_table_is_plain_in_a_pipe_and_explained_on_stderr(bench: Run, tmp_path: Path) -> None:
    done = bench("--from", save_run(tmp_path / "run.json", "summary"))
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "summary: 4 prompts of 1,300 tokens; full prefill: TTFT 800 ms"
    assert lines[1].split()[:4] == ["variant", "KL", "KL", "/"]
    assert lines[3].split()[-5:] == ["32", "20", "0.10", "40", "5%"]
    assert "95 % bootstrap intervals" in done.stderr
    assert bench("--from", tmp_path / "run.json", "-q").stderr == ""


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "name a folder of documents, or saved runs with --from"),
        (("--docs", "{docs}", "--tasks", "fact,facts"), "and not: 'facts'"),
        (("--docs", "{docs}", "--variant", "best"), "and not: 'best'"),
        (("--docs", "{docs}", "--variant", "question:2"), "and not: 'question:2'"),
        (("--docs", "{docs}", "--plot", "plot.pdf"), "ends in .png or .svg, and not as: plot.pdf"),
        (("--docs", "{docs}", "--passage-tokens", "9000"), "give 0 passages of 9,000 tokens, and 4 are needed: "),
        (("--docs", "{docs}", "--documents", "6", "--passage-tokens", "700", "--n", "1"), "context of 4,096 tokens: "),
        (("--docs", "nowhere"), "no such file or folder: "),
        (("--docs", "{docs}", "--documents", "1"), "--documents"),
        (("--from", "{run}", "--n", "3"), "a saved run has its own; leave it out with --from"),
        (("--from", "{run}", "--docs", "{docs}"), "a saved run has its own; leave it out with --from"),
        (("--from", "{run}", "--from", "{run}"), "hold the same prompts, those of: fact"),
        (("--from", "{run}", "--from", "{other}"), "need the same machine"),
        (("--from", "{docs}/note-0.md"), "this is not what `bench quality --json` prints: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_refused(
    bench: Run, bench_docs: Path, tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(on_another_machine(made_up_run("two")).to_json()))
    places = {"docs": bench_docs, "run": save_run(tmp_path / "run.json", "fact"), "other": other}
    done = bench(*(arg.format(**places) for arg in args))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    error, next_step = done.stderr.splitlines()[-2:]
    assert error.startswith("kvboost: error: ")
    assert told in error
    assert next_step.startswith("  next: ")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_picture_in_a_folder_that_is_not_there_is_told_before_the_run(bench: Run, bench_docs: Path) -> None:
    done = bench("--docs", bench_docs, "--plot", "missing/plot.png")
    assert done.returncode == 1
    assert "the picture's folder is not there: missing" in done.stderr


def test_an_interrupted_run_ends_with_130_and_leaves_nothing(
    bench_model: Path, bench_docs: Path, home_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    env = home_env | {"KVBOOST_MODEL": str(bench_model), "TMPDIR": str(tmp_path / "tmp"), "OMP_NUM_THREADS": "1"}
    command = [SCRIPT, "bench", "quality", "--docs", bench_docs, "--passage-tokens", "100", "--n", "40"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "indexing" not in (line := process.stderr.readline()):
            assert line, "the run ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130
    assert told.splitlines()[-2] == "kvboost: error: interrupted."
    assert list((tmp_path / "tmp").iterdir()) == []
