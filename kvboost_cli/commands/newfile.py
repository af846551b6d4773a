"""A file that a command writes: whole or not at all, for its owner alone, and never over something else."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import typer

STDOUT = "-"


@contextmanager
def new_file(file: str, kind: str, is_one: Callable[[BinaryIO], bool]) -> Iterator[BinaryIO]:
    """Standard output, or a new file that takes its name when it is whole.

    Only a file that ``is_one`` of the same ``kind``, such as "a bundle", is overwritten.
    """
    if file == STDOUT:
        yield sys.stdout.buffer
        return
    path = Path(file).expanduser()
    _require_free(path, kind, is_one)
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        os.replace(made, path)
    except BaseException:
        Path(made).unlink()
        raise


def _require_free(path: Path, kind: str, is_one: Callable[[BinaryIO], bool]) -> None:
    if not path.parent.is_dir():
        raise typer.BadParameter(f"the folder is not there: {path.parent}")
    if not path.exists():
        return
    if path.is_file():
        with open(path, "rb") as there:
            if is_one(there):
                return
    raise typer.BadParameter(f"there is something else than {kind}, and it is not overwritten: {path}")
