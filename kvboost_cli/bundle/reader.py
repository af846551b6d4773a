"""Reads a bundle: whose it is at once, documents and records when they are wanted.

Opening compares the digest over the whole file. What the frames mean is checked by ``audit``, which has to come first.
"""

from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from store import ChunkRecord, DocumentEntry

from .frames import MAGIC, Frame, FrameKind, FrameReader
from .payloads import parse_entry, parse_manifest, unpack_record

RECORD_KINDS = (FrameKind.RECORD, FrameKind.SHARED)


def starts_as_bundle(file: BinaryIO) -> bool:
    """Whether the file begins as a bundle does, whatever follows."""
    return file.read(len(MAGIC)) == MAGIC


class BundleReader:
    """An open bundle; ``file`` can be sought in and stays the caller's. Raises BundleError."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.frames = FrameReader(file, name)
        self.shared: dict[bytes, Frame] = {}
        frames = self.frames.frames()
        first = next(frames, None)
        if first is None or first.kind is not FrameKind.MANIFEST:
            raise self.frames.damaged("it does not begin with its manifest")
        try:
            self.identity = parse_manifest(self.frames.payload(first))
        except ValueError as error:
            raise self.frames.damaged(str(error)) from None
        second = next(frames, None)
        has_fillers = second is not None and second.kind is FrameKind.FILLERS
        self.fillers = self.frames.payload(second) if second is not None and has_fillers else None
        self._num_opening = 1 + has_fillers

    def documents(self) -> Generator["BundledDocument", None, None]:
        """The documents in order; their records are not read."""
        preambles: list[Frame] = []
        current: BundledDocument | None = None
        for number, frame in enumerate(self.frames.frames()):
            if number < self._num_opening:
                continue
            if current is not None and frame.kind in RECORD_KINDS:
                current.frames.append(frame)
                continue
            if current is not None:
                yield current
                current = None
            if frame.kind is FrameKind.PREAMBLE:
                preambles.append(frame)
            elif frame.kind is FrameKind.DOCUMENT:
                current = BundledDocument(self, self._entry(frame), tuple(preambles))
                preambles = []
            else:
                raise self.frames.damaged(f"a frame is out of place at byte {frame.start}")
        if current is not None:
            yield current
        if preambles:
            raise self.frames.damaged("a preamble stands before no document")

    def record(self, frame: Frame) -> ChunkRecord:
        """The record in a frame, its sizes and checksums compared."""
        try:
            return unpack_record(self.frames.payload(frame))
        except ValueError as error:
            raise self.frames.damaged(str(error)) from None

    def _entry(self, frame: Frame) -> DocumentEntry:
        try:
            return parse_entry(self.frames.payload(frame))
        except ValueError as error:
            raise self.frames.damaged(str(error)) from None


@dataclass(frozen=True)
class BundledDocument:
    """A document of a bundle; ``frames`` hold the records that came with no document before it."""

    reader: BundleReader
    entry: DocumentEntry
    preamble_frames: tuple[Frame, ...]
    frames: list[Frame] = field(default_factory=list)

    def preambles(self) -> Iterator[ChunkRecord]:
        """Preambles that this document is the first to stand behind."""
        return (self.reader.record(frame) for frame in self.preamble_frames)

    def records(self, wanted: Collection[bytes]) -> Iterator[ChunkRecord]:
        """The document's records under the ``wanted`` keys, one at a time; an earlier document's are sought out."""
        if not wanted:
            return
        found: set[bytes] = set()
        for record in map(self.reader.record, self.frames):
            if record.key in wanted:
                found.add(record.key)
                yield record
        for key in sorted(set(wanted) - found):
            if key not in self.reader.shared:
                raise self.reader.frames.damaged(f"a record is not there: {key.hex()}")
            yield self.reader.record(self.reader.shared[key])
