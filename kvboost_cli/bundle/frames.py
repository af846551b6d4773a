"""The container: frames one after another, each a payload behind its sizes, closed by a digest of all of them.

    offset  size  field
    0       8     magic
    8       4     format version
    12      4     zero
    16      ...   frames; the last one is END, and nothing follows it

    a frame: kind u8, method u8 (0 raw, 1 zstd), zero u16, size of the payload u64, size as stored u64, stored bytes

All integers are little-endian. END is stored raw: documents u64, records u64, blake3 of every byte before its frame.
No size that a file claims is believed: it is compared with the file's own and with what its kind may have, and zstd is
only used where it shrinks at most MAX_RATIO times, so that a small file cannot ask for much memory.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

import zstandard
from blake3 import blake3

from .errors import BundleDamaged, BundleOfOtherVersion, NotABundle

MAGIC = b"\x89KVB\r\n\x1a\n"
VERSION = 1
MAX_RATIO = 16
ZSTD_LEVEL = 1
"""Codes hardly shrink, at any level: docs/store.md has the figures."""
_OPENING = struct.Struct("<8sII")
_HEAD = struct.Struct("<BBHQQ")
_END = struct.Struct("<QQ32s")
_RAW, _ZSTD = 0, 1
_BLOCK_BYTES = 1 << 20


class FrameKind(IntEnum):
    """What a frame's payload is."""

    MANIFEST = 1
    FILLERS = 2
    PREAMBLE = 3
    DOCUMENT = 4
    RECORD = 5
    SHARED = 6
    END = 7


_KINDS = frozenset(kind.value for kind in FrameKind)
MAX_PAYLOAD_BYTES = {
    FrameKind.MANIFEST: 1 << 16,
    FrameKind.FILLERS: 1 << 24,
    FrameKind.PREAMBLE: 1 << 31,
    FrameKind.DOCUMENT: 1 << 26,
    FrameKind.RECORD: 1 << 31,
    FrameKind.SHARED: 1 << 31,
    FrameKind.END: _END.size,
}


@dataclass(frozen=True)
class Frame:
    """Where a payload stands: ``start`` is the offset of its stored bytes."""

    kind: FrameKind
    method: int
    payload_bytes: int
    stored_bytes: int
    start: int

    @property
    def end(self) -> int:
        """The offset of the next frame."""
        return self.start + self.stored_bytes


@dataclass(frozen=True)
class Totals:
    """What END says of the frames before it."""

    num_documents: int
    num_records: int
    digest: bytes


class FrameWriter:
    """Writes a bundle front to back; nothing is read again, so the file may be a pipe."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hasher = blake3()
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self.num_bytes = 0
        self._put(_OPENING.pack(MAGIC, VERSION, 0))

    def write(self, kind: FrameKind, payload: bytes) -> None:
        """Add a frame, compressed where that makes it smaller and not suspiciously so."""
        packed = self._compressor.compress(payload)
        if len(packed) < len(payload) <= MAX_RATIO * len(packed):
            self._frame(kind, _ZSTD, len(payload), packed)
        else:
            self._frame(kind, _RAW, len(payload), payload)

    def finish(self, num_documents: int, num_records: int) -> None:
        """Close the bundle."""
        end = _END.pack(num_documents, num_records, self._hasher.digest())
        self._frame(FrameKind.END, _RAW, len(end), end)
        self._file.flush()

    def _frame(self, kind: FrameKind, method: int, payload_bytes: int, stored: bytes) -> None:
        self._put(_HEAD.pack(kind, method, 0, payload_bytes, len(stored)))
        self._put(stored)

    def _put(self, data: bytes) -> None:
        self._hasher.update(data)
        self._file.write(data)
        self.num_bytes += len(data)


class FrameReader:
    """Reads frames of a file that can be sought in; ``name`` is for messages.

    Raises NotABundle, BundleOfOtherVersion, BundleDamaged.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self.name = file, name
        self._decompressor = zstandard.ZstdDecompressor()
        self._num_bytes = file.seek(0, os.SEEK_END)
        _check_opening(self._bytes(0, min(self._num_bytes, _OPENING.size)), name)
        self._end_at = self._num_bytes - _HEAD.size - _END.size
        self.totals = self._read_totals()

    def damaged(self, reason: str) -> BundleDamaged:
        """The error for a fault of this bundle."""
        return BundleDamaged(self.name, reason)

    def frames(self) -> Iterator[Frame]:
        """Every frame but END, in order; payloads are not read."""
        offset = _OPENING.size
        while offset < self._end_at:
            frame = self._frame_at(offset)
            if frame.kind is FrameKind.END or frame.end > self._end_at:
                raise self.damaged(f"a frame does not fit at byte {offset}")
            yield frame
            offset = frame.end
        if offset != self._end_at:
            raise self.damaged(f"frames end at byte {offset} instead of {self._end_at}")

    def payload(self, frame: Frame) -> bytes:
        """A frame's payload, of the size that its head tells."""
        stored = self._bytes(frame.start, frame.stored_bytes)
        if frame.method == _RAW:
            return stored
        try:
            if zstandard.frame_content_size(stored) != frame.payload_bytes:
                raise self.damaged(f"zstd and the frame tell other sizes at byte {frame.start}")
            return self._decompressor.decompress(stored, allow_extra_data=False)
        except zstandard.ZstdError:
            raise self.damaged(f"zstd cannot read the frame at byte {frame.start}") from None

    def _frame_at(self, offset: int) -> Frame:
        kind, method, zero, payload_bytes, stored_bytes = _HEAD.unpack(self._bytes(offset, _HEAD.size))
        if kind not in _KINDS or method not in (_RAW, _ZSTD) or zero:
            raise self.damaged(f"there is no frame of this kind at byte {offset}")
        allowed = payload_bytes == stored_bytes if method == _RAW else payload_bytes <= MAX_RATIO * stored_bytes
        if not allowed or payload_bytes > MAX_PAYLOAD_BYTES[FrameKind(kind)]:
            raise self.damaged(f"a frame claims a size of {payload_bytes} bytes at byte {offset}")
        return Frame(FrameKind(kind), method, payload_bytes, stored_bytes, offset + _HEAD.size)

    def _read_totals(self) -> Totals:
        """What END says, once the digest of everything before it is right."""
        if self._end_at < _OPENING.size:
            raise self.damaged("it ends too early")
        end = self._frame_at(self._end_at)
        if end.kind is not FrameKind.END or end.end != self._num_bytes:
            raise self.damaged("it was cut short or continued")
        totals = Totals(*_END.unpack(self.payload(end)))
        hasher = blake3()
        for offset in range(0, self._end_at, _BLOCK_BYTES):
            hasher.update(self._bytes(offset, min(_BLOCK_BYTES, self._end_at - offset)))
        if hasher.digest() != totals.digest:
            raise self.damaged("its digest is another one")
        return totals

    def _bytes(self, offset: int, count: int) -> bytes:
        if offset + count > self._num_bytes:
            raise self.damaged(f"it ends before byte {offset + count}")
        self._file.seek(offset)
        data = self._file.read(count)
        if len(data) != count:
            raise self.damaged(f"it became shorter while it was read, at byte {offset}")
        return data


def _check_opening(data: bytes, name: str) -> None:
    if data[: len(MAGIC)] != MAGIC:
        raise NotABundle(name)
    if len(data) < _OPENING.size:
        raise BundleDamaged(name, "it ends too early")
    _magic, version, zero = _OPENING.unpack(data)
    if version != VERSION:
        raise BundleOfOtherVersion(name, version)
    if zero:
        raise BundleDamaged(name, "its first bytes are not zero where they should be")
