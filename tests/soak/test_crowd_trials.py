"""Many processes that ask while one indexes and one prunes: no error, no wrong answer."""

import json
import subprocess
import sys
import time
from pathlib import Path

from desks import Desk, prose
from trials import NUM_DOCUMENTS, Sizes

WORKER = Path(__file__).with_name("worker.py")
NUM_STEADY = NUM_DOCUMENTS // 2
"""The first documents stay as they are, and are asked about; the others come, change and go."""


def test_a_crowd_gets_right_answers_while_the_store_changes(
    stocked: Desk, tiny_llama: Path, shared_cache: Path, sizes: Sizes
) -> None:
    ends = time.monotonic() + sizes.crowd_s
    askers = [_start_asker(stocked, tiny_llama, shared_cache, seed, sizes.crowd_s) for seed in range(sizes.crowd)]
    num_rounds = 0
    while time.monotonic() < ends or num_rounds == 0:
        num_rounds += 1
        _change_documents(stocked, num_rounds)
        writers = [stocked.start("index", "docs", "-q"), stocked.start("prune", "-q")]
        for writer in writers:
            out, err = writer.communicate()
            assert (writer.returncode, out) == (0, ""), err
    outputs = [asker.communicate() for asker in askers]
    for asker, (out, err) in zip(askers, outputs, strict=True):
        assert asker.returncode == 0, f"{out}\n{err[-2000:]}"
    steps = [json.loads(line) for out, _err in outputs for line in out.splitlines()]
    assert [step["error"] for step in steps if "error" in step] == []
    num_asked = [step["asked"] for step in steps]
    print(f"{num_rounds} rounds of index and prune; asked: {num_asked}")
    assert min(num_asked) > 0
    assert stocked.facts("doctor", "--check")["healthy"]


def _start_asker(desk: Desk, model: Path, cache: Path, seed: int, seconds: float) -> "subprocess.Popen[str]":
    facts = {
        "model": str(model), "cache": str(cache), "store": str(desk.store), "seed": seed, "seconds": seconds,
        "documents": [str(desk.docs / f"{number:02}.md") for number in range(NUM_STEADY)],
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, WORKER, "asker", json.dumps(facts)],
        env=desk.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _change_documents(desk: Desk, turn: int) -> None:
    """One document is gone, back in the next round, and the others that are not steady have a new text."""
    for number in range(NUM_STEADY, NUM_DOCUMENTS):
        path = desk.docs / f"{number:02}.md"
        if number == NUM_STEADY + turn % (NUM_DOCUMENTS - NUM_STEADY):
            path.unlink(missing_ok=True)
        else:
            path.write_text(prose(1000 * turn + number), encoding="utf-8")
