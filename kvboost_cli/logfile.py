"""A log for runs that nobody watches: everything printed goes to a file that does not grow without end."""

import os
import sys
from pathlib import Path

MAX_BYTES = 1 << 20
NUM_KEPT = 3
"""Old files beside the current one: prewarm.log.1 is the latest of them."""


def log_to(path: Path) -> None:
    """From here on stdout and stderr are the end of this file, made if need be; a long one is set aside first.

    Two processes at once append to the same file. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rotate(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


def rotate(path: Path) -> None:
    """Renames a file that has become long to ``.1``, that one to ``.2``, and drops the oldest."""
    if not path.exists() or path.stat().st_size < MAX_BYTES:
        return
    for number in range(NUM_KEPT - 1, 0, -1):
        older = _numbered(path, number)
        if older.exists():
            older.replace(_numbered(path, number + 1))
    path.replace(_numbered(path, 1))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
