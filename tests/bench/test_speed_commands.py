"""`kvboost bench ttft`, `kv-cache` and `index` as a user runs them: the real script, a tiny model, a small folder."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(sys.executable).with_name("kvboost")
SMALL = ("--sizes", "400,900", "--strategies", "none,auto", "--repeats", "2", "--dtype", "float32")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bench_env(bench_model: Path, shared_cache: Path, tmp_path: Path) -> dict[str, str]:
    """Temporary files go where the test can see them."""
    (tmp_path / "tmp").mkdir()
    return {
        "KVBOOST_MODEL": str(bench_model), "TMPDIR": str(tmp_path / "tmp"), "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(shared_cache),
    }  # fmt: skip


@pytest.fixture
def bench(kvboost: Run, bench_env: dict[str, str]) -> Run:
    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        return kvboost("bench", *args, env=bench_env)

    return run


def facts_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ttft_prints_json_with_memory_and_draws(bench: Run, bench_docs: Path, tmp_path: Path) -> None:
    picture = tmp_path / "ttft.svg"
    done = bench("ttft", "--docs", bench_docs, *SMALL, "--bits", "16", "--memory", "--plot", picture, "--json")
    facts = facts_of(done)
    assert facts["complete"] is True
    assert (facts["docs"], facts["recipe"]["bits"]) == (str(bench_docs), 16)
    assert [(size["size"], size["num_prompts"]) for size in facts["sizes"]] == [("400", 2), ("900", 2)]
    assert len(facts["prompts"]) == 4
    for size in facts["sizes"]:
        assert [one["strategy"] for one in size["strategies"]] == ["none", "auto"]
        assert size["full_prefill_s"][0] > 0
    for used in facts["memory"]:
        assert [ask["strategy"] for ask in used["asks"]] == ["none", "auto"]
        assert used["cache_bytes"] == used["prompt_tokens"] * 4 * 2 * (16 + 16) * 4  # layers, heads, sizes, fp32
        for peak_bytes in (used["full_prefill_bytes"], *(ask["peak_bytes"] for ask in used["asks"])):
            assert peak_bytes > used["imports_bytes"] > 10_000_000
    assert "400, asking: 3/3 turns" in done.stderr
    assert "<svg" in picture.read_text()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_ttft_in_a_pipe_is_a_plain_table_within_80_columns(bench: Run, bench_docs: Path) -> None:
    done = bench("ttft", "--docs", bench_docs, *SMALL, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(r"400: 2 prompts of \d+ tokens in 1 document; full prefill \d+ ms", lines[0])
    assert lines[1].split()[:4] == ["strategy", "TTFT", "ms", "faster"]
    assert re.match(r"none +\d+ +\d+\.\dx +\d+\.\d\d +0 ", lines[2])


def test_kv_cache_tells_both_ways_and_each_decoder(bench: Run, bench_docs: Path) -> None:
    args = ("kv-cache", "--docs", bench_docs, "--sizes", "300,50", "--tokens", "4", "--repeats", "2")
    facts = facts_of(bench(*args, "--json"))
    assert (facts["cache"]["prompt_tokens"], facts["cache"]["tokens"]) == (250, 4)
    assert [(size["prompt_tokens"], size["repeats"]) for size in facts["sizes"]] == [(300, 2), (50, 2)]
    assert len(facts["steps"]) == 4
    shown = bench(*args)
    assert shown.returncode == 0, shown.stderr
    assert re.match(r"4 tokens behind 250, prefill included: \d+\.\d s without a KV cache, ", shown.stdout)
    assert re.search(r"^ +300 +\d+\.\d +\d+\.\d +\d+\.\dx ", shown.stdout, re.M)


def test_index_tells_rates(bench: Run, bench_docs: Path, tmp_path: Path) -> None:
    facts = facts_of(bench("index", "--docs", bench_docs, "--repeats", "1", "--contexts", "1", "--json"))
    assert facts["recipe"]["contexts"] == 1
    assert facts["forward"]["ratio"] == [1.0, 1.0, 1.0]
    assert all(facts[name]["tokens_per_s"][0] > 0 for name in ("context", "exact", "whole"))
    shown = bench("index", "--docs", bench_docs, "--repeats", "1", "-q")
    assert [line.split()[0] for line in shown.stdout.splitlines()[2:]] == ["plain", "one", "exact", "whole"]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("ttft", "--docs", "{docs}", "--sizes", "1k,many"), "and not: 'many'"),
        (("ttft", "--docs", "{docs}", "--strategies", "none,best"), "and not: 'best'"),
        (("ttft", "--docs", "{docs}", "--sizes", "9k"), "give 18 passages of 300 tokens, and 28 are needed: "),
        (("ttft", "--docs", "{docs}", "--sizes", "4.1k"), "do not fit the model's context of 4,096 tokens: "),
        (("ttft", "--docs", "nowhere"), "no such file or folder: "),
        (("ttft", "--docs", "{docs}", "--plot", "plot.pdf"), "ends in .png or .svg, and not as: plot.pdf"),
        (("kv-cache", "--docs", "{docs}", "--sizes", "4k"), "do not fit the model's context of 4,096 tokens: 4,100"),
        (("index", "--docs", "{docs}", "--repeats", "9"), "and 53 are needed: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_measured_is_refused(
    bench: Run, bench_docs: Path, tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    done = bench(*(arg.format(docs=bench_docs) for arg in args))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    error, next_step = done.stderr.splitlines()[-2:]
    assert error.startswith("kvboost: error: ")
    assert told in error
    assert next_step.startswith("  next: ")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_interrupted_run_shows_what_it_has_measured(
    bench_env: dict[str, str], home_env: dict[str, str], bench_docs: Path, tmp_path: Path
) -> None:
    args = ("--docs", bench_docs, "--sizes", "900,3k", "--strategies", "none", "--repeats", "99", "--json")
    with subprocess.Popen(
        [SCRIPT, "bench", "ttft", *args],
        env=home_env | bench_env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while not re.match(r"900, asking: \d+/100", line := process.stderr.readline()):
            assert line, "the run ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate()
    assert process.returncode == 130
    assert json.loads(errors.splitlines()[-1])["error"] == "interrupted"
    facts = json.loads(told)
    assert facts["complete"] is False
    assert len(facts["prompts"]) > 0
    assert facts["sizes"][0]["size"] == "900"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_ask_that_is_watched_ends_with_its_watcher(tmp_path: Path) -> None:
    from kvboost_cli.bench import watcher

    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    command = [sys.executable, watcher.__file__, sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert process.poll() is None
        process.terminate()
        told, _ = process.communicate()
    assert process.returncode != 0
    assert int(told) > 1_000_000
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
