"""The conversation with a candidate's process: a real one."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers.candidate import WORKERS, CandidateFailed, started_candidate

SCRIPT = f"""
import os, sys
sys.path.insert(0, {str(WORKERS)!r})
from protocol import serve

def double(request):
    print("a library talks")
    os.write(1, b"so does its C code\\n")
    return {{"value": request["value"] * 2}}

def leave(request):
    os._exit(1)

serve({{"double": double, "leave": leave}}, {{"name": sys.argv[1]}})
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    path = tmp_path / "worker.py"
    path.write_text(SCRIPT)
    return path


def test_a_candidate_says_hello_and_answers_in_turn(worker: Path) -> None:
    with started_candidate(Path(sys.executable), worker, ["doubler"]) as candidate:
        assert candidate.hello == {"name": "doubler"}
        assert [candidate.call("double", {"value": value}) for value in (1, 2)] == [{"value": 2}, {"value": 4}]


def test_a_candidate_that_ends_is_told(worker: Path) -> None:
    with (
        started_candidate(Path(sys.executable), worker, ["doubler"]) as candidate,
        pytest.raises(CandidateFailed),
    ):
        candidate.call("leave", {})


def test_a_candidate_that_does_not_start_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(CandidateFailed),
        started_candidate(Path(sys.executable), tmp_path / "missing.py", []),
    ):
        pass
