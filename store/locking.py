"""The writer lock: one process at a time creates or indexes. The system frees it when its holder dies."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import StoreBusy
from .marker import LOCK_NAME
from .swapping import remove_leftovers


@contextmanager
def hold_writer_lock(
    directory: Path, *, wait: bool = True, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Holds the lock of the store in `directory`; not reentrant.

    While another holds it: raises StoreBusy if `wait` is False, else calls `on_wait` once and waits.
    """
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, directory, wait, on_wait)
        remove_leftovers(directory)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, directory: Path, wait: bool, on_wait: Callable[[], None] | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        if not wait:
            raise StoreBusy(directory, "another process is writing to it") from None
    if on_wait:
        on_wait()
    fcntl.flock(descriptor, fcntl.LOCK_EX)
