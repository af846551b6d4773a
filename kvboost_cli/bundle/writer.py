"""Writes a bundle, document by document; one record is in memory at a time."""

from collections.abc import Iterable
from typing import BinaryIO

from store import ChunkRecord, DocumentEntry, StoreIdentity

from .frames import FrameKind, FrameWriter
from .payloads import pack_manifest, pack_record


class BundleWriter:
    """Takes what a bundle holds in the order in which a reader needs it; `finish` makes it whole.

    The same calls give the same bytes.
    """

    def __init__(self, file: BinaryIO, identity: StoreIdentity, fillers: bytes | None) -> None:
        """``identity`` is the source's; ``fillers`` are kept for stores that have none."""
        self._frames = FrameWriter(file)
        self.num_documents = 0
        self.num_records = 0
        self._frames.write(FrameKind.MANIFEST, pack_manifest(identity))
        if fillers is not None:
            self._frames.write(FrameKind.FILLERS, fillers)

    @property
    def num_bytes(self) -> int:
        """Bytes written so far."""
        return self._frames.num_bytes

    def add_preamble(self, record: ChunkRecord) -> None:
        """What stands before the exact records of documents that follow."""
        self._add_record(FrameKind.PREAMBLE, record)

    def add_document(self, entry: DocumentEntry, records: Iterable[tuple[ChunkRecord, bool]]) -> None:
        """A document with those of its records that came with no document before it.

        True beside a record tells that a later document may name it, too.
        """
        self._frames.write(FrameKind.DOCUMENT, entry.to_bytes())
        self.num_documents += 1
        for record, is_shared in records:
            self._add_record(FrameKind.SHARED if is_shared else FrameKind.RECORD, record)

    def finish(self) -> None:
        """Close the bundle; without this no reader takes it."""
        self._frames.finish(self.num_documents, self.num_records)

    def _add_record(self, kind: FrameKind, record: ChunkRecord) -> None:
        self._frames.write(kind, pack_record(record))
        self.num_records += 1
