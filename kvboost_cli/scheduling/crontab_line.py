"""One marked line in the user's crontab. Every other line stays as it is, byte for byte."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from crontab import CronSlices

from .errors import BadSchedule, LineRefused, SchedulerFailed, SchedulerMissing
from .job import Job

MAX_COMMAND_BYTES = 998
"""Vixie cron, which Debian and others have, refuses a longer command."""


@dataclass(frozen=True)
class CronLine:
    """A job and when to run it, as cron's five fields or such as @daily."""

    schedule: str
    job: Job

    def __post_init__(self) -> None:
        if not CronSlices.is_valid(self.schedule):
            raise BadSchedule(f"cron does not understand this time: {self.schedule}")

    @property
    def text(self) -> str:
        """The line; its end is a comment to the shell, and our mark.

        A % would be a line break to cron. Raises LineRefused.
        """
        command = self.job.shell_command
        if "\n" in command or "\r" in command:
            raise LineRefused("a path or a variable has a line break, which no crontab can hold")
        line = f"{command} # {self.job.name}".replace("%", r"\%")
        if len(os.fsencode(line)) > MAX_COMMAND_BYTES:
            raise LineRefused(f"cron takes commands of up to {MAX_COMMAND_BYTES} bytes: {len(os.fsencode(line))}")
        return f"{self.schedule} {line}"


def is_available() -> bool:
    """Whether the system has crontabs at all."""
    return shutil.which("crontab") is not None


def find_line(name: str) -> str | None:
    """The line of the job of that name; None if there is none."""
    mark = _mark(name)
    return next((os.fsdecode(line) for line in _read() if line.rstrip().endswith(mark)), None)


def install_line(line: CronLine) -> None:
    """Write the line in place of an earlier one of the same store, else as the last."""
    text = os.fsencode(line.text)
    lines, mark = _read(), _mark(line.job.name)
    places = [place for place, found in enumerate(lines) if found.rstrip().endswith(mark)]
    if places:
        lines[places[0]] = text
        lines = [found for place, found in enumerate(lines) if place not in places[1:]]
    else:
        lines.append(text)
    _write(lines)


def remove_line(name: str) -> bool:
    """Take the line out; False if there is none."""
    lines, mark = _read(), _mark(name)
    kept = [line for line in lines if not line.rstrip().endswith(mark)]
    if len(kept) < len(lines):
        _write(kept)
    return len(kept) < len(lines)


def _mark(name: str) -> bytes:
    return f"# {name}".encode()


def _read() -> list[bytes]:
    done = _run_crontab("-l")
    if done.returncode == 0:
        return done.stdout.splitlines()
    if b"no crontab" in done.stderr:
        return []
    raise SchedulerFailed(f"the crontab cannot be read: {_said(done)}")


def _write(lines: list[bytes]) -> None:
    done = _run_crontab("-", data=b"".join(line + b"\n" for line in lines))
    if done.returncode:
        raise SchedulerFailed(f"the crontab cannot be written: {_said(done)}")


def _run_crontab(*arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    program = shutil.which("crontab")
    if program is None:
        raise SchedulerMissing("there is no crontab program on this system")
    environment = {**os.environ, "LC_ALL": "C"}  # what it says is read above
    return subprocess.run([program, *arguments], input=data, capture_output=True, env=environment, check=False)


def _said(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"it ended with {done.returncode}"
