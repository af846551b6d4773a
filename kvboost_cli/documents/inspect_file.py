"""One file: is it there, of what sort, and may it hold text? Never blocks, reads at most its first bytes."""

import os
from pathlib import Path
from typing import NamedTuple

from .errors import BinaryDocument, DocumentError, DocumentTooLarge, EmptyDocument, NotAFile
from .files import read_head, translate_os_error
from .sources import Skipped, SourceFile

_PASSED_OVER = (BinaryDocument, DocumentTooLarge, EmptyDocument, NotAFile)


class Found(NamedTuple):
    """What discovery met: `identity` is (device, inode) where known; `explicit` means that it was named itself."""

    item: SourceFile | Skipped
    identity: tuple[int, int] | None
    explicit: bool


def inspect_file(path: str, root: str, *, explicit: bool) -> Found:
    """Look at one file, at an absolute path, without reading it whole."""
    identity = None
    try:
        info = os.stat(path)
        identity = (info.st_dev, info.st_ino)
        _, info = read_head(path)
    except OSError as error:
        return Found(skipped_for(translate_os_error(error, path), explicit=explicit), identity, explicit)
    except DocumentError as error:
        return Found(skipped_for(error, explicit=explicit), identity, explicit)
    return Found(SourceFile(Path(path), Path(root), info.st_size, info.st_mtime_ns, explicit), identity, explicit)


def skipped_for(error: DocumentError, *, explicit: bool) -> Skipped:
    """Turn an error into a Skipped: what a folder walk may pass over has failed only if it was named itself.

    Serves errors of `read_document` too: pass the source's `explicit`.
    """
    return Skipped(error.name, error.reason, explicit or not isinstance(error, _PASSED_OVER))
