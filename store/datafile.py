"""Checks on LMDB's data file before LMDB maps it.

LMDB trusts its file: a page beyond the end of the file is a SIGBUS, not an error. So the two meta pages
are read here first, with plain reads. Layout of a meta page (LMDB 0.9, 64 bits, native byte order):

    0 page number u64 | 10 flags u16 | 16 magic u32 | 20 version u32 | 40 page size u32 | 136 last page u64
    | 144 transaction u64
"""

import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import StoreDamaged, StoreReadonly, StoreUnreadable

DATA_NAME = "data.mdb"
_META = struct.Struct("=8x2xH4x II 16x I 92x QQ")
_META_FLAG = 0x08
_MAGIC = 0xBEEFC0DE
_VERSION = 1
_POINTER_BYTES = 8


@dataclass(frozen=True)
class _MetaPage:
    page_bytes: int
    last_page: int
    transaction: int


def missing_bytes(directory: Path) -> int:
    """How much shorter the data file is than its newest meta page says; 0 if it is whole.

    A sound file may be short: LMDB never writes a page that one transaction takes and frees again. Such a
    page is never read either. Raises StoreDamaged if the meta pages are not those of an LMDB file.
    """
    if struct.calcsize("P") != _POINTER_BYTES:
        return 0
    with open(directory / DATA_NAME, "rb") as file:
        first = _read_meta(directory, file.fileno(), 0)
        second = _read_meta(directory, file.fileno(), first.page_bytes)
        newest = max(first, second, key=lambda meta: meta.transaction)
        # Asked for last: a writer at work lengthens the file before it writes its meta page.
        size = os.fstat(file.fileno()).st_size
    return max(0, (newest.last_page + 1) * newest.page_bytes - size)


def _read_meta(directory: Path, descriptor: int, offset: int) -> _MetaPage:
    data = os.pread(descriptor, _META.size, offset)
    if len(data) < _META.size:
        raise StoreDamaged(directory, f"{DATA_NAME} ends within its meta pages")
    flags, magic, version, page_bytes, last_page, transaction = _META.unpack(data)
    power_of_two = page_bytes and not page_bytes & (page_bytes - 1)
    if not flags & _META_FLAG or magic != _MAGIC or version != _VERSION or not power_of_two:
        raise StoreDamaged(directory, f"{DATA_NAME} has no LMDB meta page at byte {offset}")
    return _MetaPage(page_bytes, last_page, transaction)


def require_writable(directory: Path) -> None:
    """Raises StoreReadonly unless directory and data file, as far as they are there, may be written."""
    paths = [path for path in (directory, directory / DATA_NAME) if path.exists()]
    if not all(os.access(path, os.R_OK | os.W_OK) for path in paths):
        raise StoreReadonly(directory)


def require_sound_file(directory: Path, verify: Callable[[Path], list[str]]) -> None:
    """Raises StoreDamaged or StoreUnreadable unless LMDB can map the file without harm.

    `verify` tells what is wrong with the pages; asked only if the file is short.
    """
    data = directory / DATA_NAME
    if not data.exists():
        raise StoreDamaged(directory, f"it has no {DATA_NAME}")
    if not os.access(data, os.R_OK):
        raise StoreUnreadable(directory, f"{DATA_NAME} may not be read")
    if missing_bytes(directory):
        problems = verify(data)
        # Asked again: a writer at work may have changed the file under the check, and then lengthened it.
        if problems and missing_bytes(directory):
            raise StoreDamaged(directory, f"{DATA_NAME} was cut short, {problems[0]}")


def can_map(num_bytes: int) -> bool:
    """Whether the system grants that much address space; asked before growing, since LMDB cannot go back."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        mmap.mmap(-1, num_bytes, flags=flags, prot=mmap.PROT_READ).close()
    except (OSError, OverflowError):
        return False
    return True
