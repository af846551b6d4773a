"""What the log of a job says at its end."""

import shlex
from pathlib import Path

TAIL_BYTES = 4096


def find_log(line: str | None) -> Path | None:
    """The log that an installed crontab line names."""
    if line is None:
        return None
    words = shlex.split(line.replace(r"\%", "%"), comments=True)
    return Path(words[words.index("--log") + 1]) if "--log" in words else None


def last_line(path: Path) -> str | None:
    """The last line of a log; None without one."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    return next((line for line in reversed(lines) if line.strip()), None)
