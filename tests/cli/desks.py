"""A desk: a folder of documents, a store, and the real script to run on them, in a pipe or on a terminal."""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(sys.executable).with_name("kvboost")
ESCAPE = "\x1b"
COLOUR = re.compile(rf"{ESCAPE}\[[0-9;]*[34][0-7]")
UTF8 = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"}

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Desk:
    """``docs`` is shared and must not be changed; ``root``, the working directory, and ``store`` are the test's own."""

    root: Path
    docs: Path
    store: Path
    env: dict[str, str]

    def run(self, *args: str | Path, stdin: str | bytes = b"", prefix: tuple[str, ...] = (), **popen: Any) -> Done:
        """One run of the script; what it prints has to be UTF-8."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        command = [*prefix, SCRIPT, *args]
        done = subprocess.run(
            command, cwd=self.root, env=self.env, input=data, capture_output=True, check=False, **popen
        )
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str | Path, **popen: Any) -> subprocess.Popen[str]:
        """The same without waiting; both streams are pipes unless told otherwise."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        return subprocess.Popen([SCRIPT, *args], cwd=self.root, env=self.env, text=True, **streams)

    def facts(self, *args: str | Path, stdin: str | bytes = b"", code: int = 0) -> Any:
        """The JSON object of a run that has to end with ``code``."""
        done = self.run(*args, "--json", stdin=stdin)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, text: str | bytes) -> Path:
        """A file in the test's own folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def with_env(self, **changes: str) -> "Desk":
        """The same desk in another environment."""
        return Desk(self.root, self.docs, self.store, self.env | changes)

    def open_terminal(self, *args: str | Path, **env: str) -> "Terminal":
        """Run the script on a terminal of 120 columns, where colours are allowed unless ``env`` says otherwise."""
        kept = {name: value for name, value in self.env.items() if name != "NO_COLOR"}
        return Terminal([SCRIPT, *args], self.root, kept | {"TERM": "xterm-256color", "COLUMNS": "120"} | env)


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
        try:
            data = os.read(self._main, 65536)
        except OSError:  # EIO: the other end was closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


class SizedTerminal(Terminal):
    """A terminal of so many columns that says so itself, and whose keys make signals for its process."""

    def __init__(self, desk: Desk, num_columns: int, *args: str, stdout: Path | None = None, **env: str) -> None:
        self._main, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, num_columns, 0, 0))
        kept = {name: value for name, value in desk.env.items() if name not in ("NO_COLOR", "COLUMNS", "LC_ALL")}
        out = os.dup(inner) if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.process = subprocess.Popen(
            [SCRIPT, *args], cwd=desk.root, env=kept | {"TERM": "xterm-256color"} | env, stdin=inner, stdout=out,
            stderr=inner, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(inner)
        os.close(out)
        self.shown = ""

    def lines(self) -> list[str]:
        """What was shown, without escape codes; a line that was drawn over is there as often as it was drawn."""
        assert self.finish() == 0, self.shown
        return re.split(r"[\r\n]+", re.sub(rf"{ESCAPE}\[[0-9;?]*[A-Za-z]", "", self.shown))


def assert_refused(done: Done, code: int, fact: str) -> None:
    """One line with the fact, one with the next step, nothing on stdout, no traceback."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert_told(done, fact)
    assert len(done.stderr.splitlines()) == 2, done.stderr


def assert_told(done: Done, fact: str) -> None:
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


def limit_file_size(num_bytes: int) -> Callable[[], None]:
    """For ``preexec_fn``: no file may grow beyond this, as on a disk that is full."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
