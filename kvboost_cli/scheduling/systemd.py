"""A systemd user timer, and the service that it starts."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import BadSchedule, LineRefused, SchedulerFailed, SchedulerMissing
from .job import Job


@dataclass(frozen=True)
class Timer:
    """A job and when to run it, as systemd's OnCalendar."""

    schedule: str
    job: Job

    @property
    def service(self) -> str:
        """The text of the service. Exit code 75 means that another kvboost is at work: no failure."""
        lines = [
            "[Unit]", f"Description=kvboost prewarm {_escape(str(self.job.store))}", "", "[Service]", "Type=oneshot",
            *(f"Environment={_quote(f'{name}={value}')}" for name, value in self.job.environment),
            *([] if self.job.folder is None else [f"WorkingDirectory={_escape(str(self.job.folder))}"]),
            f"ExecStart={' '.join(map(_quote_word, self.job.command))}", "SuccessExitStatus=75", "Nice=19",
            "IOSchedulingClass=idle",
        ]  # fmt: skip
        return _text(lines)

    @property
    def timer(self) -> str:
        """The text of the timer; a run that was missed while the machine was off is made up for."""
        lines = [
            "[Unit]", f"Description=When to run {self.job.name}.service", "", "[Timer]",
            f"OnCalendar={self.schedule}", "Persistent=true", "RandomizedDelaySec=60", "", "[Install]",
            "WantedBy=timers.target",
        ]  # fmt: skip
        return _text(lines)


def unit_folder(environment: "os._Environ[str] | dict[str, str]") -> Path:
    """Where a user's own units are."""
    config = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "systemd" / "user"


def unit_paths(name: str, folder: Path) -> tuple[Path, Path]:
    """The files of a job's service and timer."""
    return folder / f"{name}.service", folder / f"{name}.timer"


def install_timer(timer: Timer, folder: Path) -> None:
    """Write both units, and have systemd start the timer now and at each login."""
    _require_calendar(timer.schedule)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(unit_paths(timer.job.name, folder), (timer.service, timer.timer), strict=True):
        path.write_text(text, encoding="utf-8")
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{timer.job.name}.timer")


def remove_timer(name: str, folder: Path) -> bool:
    """Stop the timer and remove both units; False if there are none."""
    paths = [path for path in unit_paths(name, folder) if path.exists()]
    if paths:
        _systemctl("disable", "--now", f"{name}.timer")
        for path in paths:
            path.unlink()
        _systemctl("daemon-reload")
    return bool(paths)


def _require_calendar(schedule: str) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        raise SchedulerMissing("there is no systemd on this system")
    done = subprocess.run([program, "calendar", schedule], capture_output=True, check=False)
    if done.returncode:
        raise BadSchedule(f"systemd does not understand this time: {schedule}")


def _systemctl(*arguments: str) -> None:
    program = shutil.which("systemctl")
    if program is None:
        raise SchedulerMissing("there is no systemctl on this system")
    done = subprocess.run([program, "--user", *arguments], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {done.returncode}"]
        raise SchedulerFailed(f"systemctl --user {' '.join(arguments)} failed: {said[-1]}")


def _text(lines: list[str]) -> str:
    if any("\n" in line or "\r" in line for line in lines):
        raise LineRefused("a path or a variable has a line break, which no unit can hold")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """% begins a specifier in units."""
    return text.replace("%", "%%")


def _quote(text: str) -> str:
    escaped = _escape(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quote_word(text: str) -> str:
    """A word of a command, in which $ begins a variable, too."""
    return _quote(text).replace("$", "$$")
