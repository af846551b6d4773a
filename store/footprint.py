"""What values take in the store's file, told before they are written."""

from collections.abc import Iterable
from mmap import PAGESIZE

PAGE_HEADER_BYTES = 16
LARGEST_IN_LEAF = PAGESIZE // 2 - 52
"""LMDB wants two entries on a page: a larger value, with its key and their headers, gets pages of its own."""

LEAF_FILL = 2 / 3
"""How full the other pages are, about: each was split in halves, and has grown since."""


def file_bytes(sizes: Iterable[int]) -> int:
    """Bytes of the pages that values of these sizes take: whole pages for a large one, a share of one for others.

    LMDB's page is the system's.

    >>> file_bytes([3 * PAGESIZE]) == 4 * PAGESIZE
    True
    """
    return sum(map(_value_bytes, sizes))


def _value_bytes(size: int) -> int:
    if size <= LARGEST_IN_LEAF:
        return round(size / LEAF_FILL)
    return -(-(size + PAGE_HEADER_BYTES) // PAGESIZE) * PAGESIZE
