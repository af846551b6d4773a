"""Bits flipped and files cut at random: never wrong KV, never a process that dies by a signal."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from desks import Desk
from trials import Sizes

WORKER = Path(__file__).with_name("worker.py")
SEED = 5
PER_PROCESS = 50


@pytest.mark.parametrize("kind", ["flips", "cuts"])
def test_a_damaged_store_never_serves_wrong_kv(
    stocked: Desk, tiny_llama: Path, shared_cache: Path, tmp_path: Path, sizes: Sizes, kind: str
) -> None:
    count = sizes.flips if kind == "flips" else sizes.cuts
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    outcomes: Counter[str] = Counter()
    for first in range(0, count, PER_PROCESS):
        facts = {
            "model": str(tiny_llama), "cache": str(shared_cache), "store": str(stocked.store), "scratch": str(scratch),
            "documents": [str(stocked.docs / "00.md"), str(stocked.docs / "01.md")],
            "seed": SEED, "first": first, "last": min(first + PER_PROCESS, count),
        }  # fmt: skip
        outcomes += _run(kind, facts, stocked.env)
    print(f"{kind}: {dict(outcomes)}")
    assert set(outcomes) <= {"same", "told", "anew"}, outcomes
    assert outcomes.total() == count
    assert outcomes["told"] + outcomes["anew"] > 0, "some damage was met"


def _run(kind: str, facts: dict[str, object], env: dict[str, str]) -> "Counter[str]":
    done = subprocess.run(
        [sys.executable, WORKER, kind, json.dumps(facts)], env=env, capture_output=True, text=True, check=False
    )
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"ended with {done.returncode} at {steps[-1:]}: {done.stderr[-2000:]}"
    return Counter(step["outcome"] for step in steps if "outcome" in step)
