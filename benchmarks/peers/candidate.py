"""Our side of the conversation with a candidate's process (``workers/protocol.py`` is the other)."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

WORKERS = Path(__file__).parent / "workers"
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

Reply = dict[str, Any]


class CandidateFailed(Exception):
    """A candidate's process ended; what it said before is on standard error."""


@dataclass(frozen=True)
class Candidate:
    """A started candidate. ``hello`` is what it told about itself."""

    requests: IO[str]
    replies: IO[str]
    hello: Reply

    def call(self, do: str, request: Mapping[str, object]) -> Reply:
        """Have one thing done, and wait for its reply. Raises ``CandidateFailed``."""
        self.requests.write(json.dumps({"do": do, **request}) + "\n")
        self.requests.flush()
        return _read(self.replies)


@contextmanager
def started_candidate(python: Path, worker: Path, arguments: Sequence[str]) -> Iterator[Candidate]:
    """A candidate's process, which ends with the block. Raises ``CandidateFailed`` if it does not start."""
    command = [str(python), "-s", str(worker), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=PLAIN) as process:
        assert process.stdin is not None, "stdin is a pipe"
        assert process.stdout is not None, "stdout is a pipe"
        try:
            yield Candidate(process.stdin, process.stdout, _read(process.stdout))
        except BaseException:
            process.kill()
            raise


def _read(replies: IO[str]) -> Reply:
    line = replies.readline()
    if not line:
        raise CandidateFailed("a candidate's process ended without a reply")
    reply: Reply = json.loads(line)
    return reply
