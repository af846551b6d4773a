"""What many tests here expect, and how they make it happen."""

import os
import pty
import re
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ESCAPE = "\x1b"


def assert_refused(done: "subprocess.CompletedProcess[str]", code: int, fact: str) -> None:
    """One line with the fact, one with the next step, nothing on stdout, no traceback."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert_told(done, fact)
    assert len(done.stderr.splitlines()) == 2, done.stderr


def assert_told(done: "subprocess.CompletedProcess[str]", fact: str) -> None:
    """The last two lines on stderr are an error with this fact and its next step."""
    error, next_step = done.stderr.splitlines()[-2:]
    assert error.startswith("kvboost: error: ")
    assert fact in error
    assert re.fullmatch(r"  next: \S.*", next_step)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def without_root_rights() -> tuple[str, ...]:
    """A prefix under which permission bits count, whoever runs the tests."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("permission bits do not bind root, and there is no setpriv to give the rights up")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def prose(seed: int, num_paragraphs: int = 8) -> str:
    """Paragraphs that no other seed shares."""
    lines = (
        f"Paragraph {number} of report {seed} tells how station {seed * 31 + number} measured wave {number * 17}, "
        f"why the crew of vessel {seed * 7 + number} waited, and what was decided in the end."
        for number in range(num_paragraphs)
    )
    return "\n\n".join(lines) + "\n"


class Terminal:
    """A process on a terminal of its own: everything that it shows is collected in ``shown``."""

    def __init__(self, command: list[str | Path], cwd: Path, env: dict[str, str]) -> None:
        self._main, inner = pty.openpty()
        self.process = subprocess.Popen(command, cwd=cwd, env=env, stdin=inner, stdout=inner, stderr=inner)
        os.close(inner)
        self.shown = ""

    def read_until(self, pattern: str) -> "re.Match[str] | None":
        """Read on until the pattern is shown; None if the process ended before."""
        while True:
            found = re.search(pattern, self.shown)
            if found is not None or not self._read():
                return found

    def finish(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        os.close(self._main)
        return self.process.wait()

    def _read(self) -> bool:
        select.select([self._main], [], [])
        try:
            data = os.read(self._main, 65536)
        except OSError:  # EIO: the other end was closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


def open_terminal(desk: Any, script: Path, *args: str | Path, **env: str) -> Terminal:
    """Run the script on a terminal of 120 columns, with colours allowed unless ``env`` says otherwise."""
    kept = {name: value for name, value in desk.env.items() if name != "NO_COLOR"}
    return Terminal([script, *args], desk.root, kept | {"TERM": "xterm-256color", "COLUMNS": "120"} | env)


def limit_file_size(num_bytes: int) -> Callable[[], None]:
    """For ``preexec_fn``: no file may grow beyond this, as on a disk that is full."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
