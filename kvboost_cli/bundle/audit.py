"""Checks what a bundle's frames mean, before anything of it is used.

Every key is computed again: a content key from the chunk's token ids, a positional key from the one before it. So a
record cannot pass for another's. What the KV itself is worth no check can tell: whoever made it is trusted in that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from store import ChunkHeader, ChunkRecord, DocumentEntry, StoreIdentity, content_key, positional_key

from .frames import FrameKind
from .reader import BundledDocument, BundleReader

MAX_PREAMBLES = 64
NUM_ROPE_VARIANTS = 256


@dataclass(frozen=True)
class _Facts:
    """What is remembered of a record: for links the positional key before it, once it is known."""

    num_tokens: int
    positional: bool
    parent: bytes | None = None


class BundleAudit:
    """Goes through a bundle once, front to back; raises BundleDamaged."""

    def __init__(self, reader: BundleReader) -> None:
        self._reader = reader
        self._preambles: list[bytes] = []
        self._shared: dict[bytes, _Facts] = {}
        self._num_documents = 0
        self._num_records = 0

    def check(self, document: BundledDocument) -> Iterator[ChunkRecord]:
        """Every record that comes with a document, and then whether they make up the document.

        Take the documents in order, and each to its end.
        """
        for record in document.preambles():
            self._add_preamble(record)
            yield record
        own: dict[bytes, ChunkHeader] = {}
        for frame in document.frames:
            record = self._reader.record(frame)
            self._check_record(record, own, is_new=record.key not in self._shared)
            if frame.kind is FrameKind.SHARED:
                self._reader.shared[record.key] = frame
                self._shared[record.key] = _Facts(record.header.num_tokens, record.header.positional)
            yield record
        self._check_document(document.entry, own)
        self._num_documents += 1
        self._num_records += len(own) + len(document.preamble_frames)

    def finish(self) -> None:
        """Whether all was there."""
        totals = self._reader.frames.totals
        if (totals.num_documents, totals.num_records) != (self._num_documents, self._num_records):
            raise self._damaged("it holds other numbers of documents and records than its end tells")

    def _add_preamble(self, record: ChunkRecord) -> None:
        identity, header = self._reader.identity, record.header
        if len(self._preambles) == MAX_PREAMBLES:
            raise self._damaged(f"it has more preambles than {MAX_PREAMBLES}")
        variants = (bytes([variant]) * 32 for variant in range(NUM_ROPE_VARIANTS))
        fits = header.fingerprint == identity.fingerprint and header.rotated
        fits = fits and not header.start and not header.kept_indices
        if not fits or not any(
            positional_key(b"", identity.fingerprint, variant, header.token_ids) == record.key for variant in variants
        ):
            raise self._damaged(f"a preamble's key is another one: {record.key.hex()}")
        self._preambles.append(record.key)

    def _check_record(self, record: ChunkRecord, own: dict[bytes, ChunkHeader], *, is_new: bool) -> None:
        header = record.header
        if not is_new or record.key in own:
            raise self._damaged(f"a record is there twice: {record.key.hex()}")
        if not _is_of(self._reader.identity, header) or header.rotated or header.start or header.kept_indices:
            raise self._damaged(f"a record is of another kind than its document's: {record.key.hex()}")
        if not header.positional and record.key != content_key(header.fingerprint, header.recipe, header.token_ids):
            raise self._damaged(f"a record's key is not that of its tokens: {record.key.hex()}")
        own[record.key] = header

    def _check_document(self, entry: DocumentEntry, own: dict[bytes, ChunkHeader]) -> None:
        if entry.recipe != self._reader.identity.recipe.hex():
            raise self._damaged("a document was made by another recipe")
        if not own.keys() <= {*entry.chunk_keys, *entry.position_keys}:
            raise self._damaged("a record belongs to no document")
        if self._count_tokens(entry.chunk_keys, own) != entry.num_tokens:
            raise self._damaged("a document has another number of tokens than its chunks")
        self._check_chain(entry.position_keys, own)

    def _count_tokens(self, keys: Sequence[bytes], own: dict[bytes, ChunkHeader]) -> int:
        return sum(self._facts(key, own, positional=False).num_tokens for key in keys)

    def _check_chain(self, keys: Sequence[bytes], own: dict[bytes, ChunkHeader]) -> None:
        """Each positional key follows from the one before it, the first one from a preamble's."""
        parents = self._preambles
        for key in keys:
            facts = self._facts(key, own, positional=True)
            if key in own:
                parent = next((one for one in parents if _link_key(one, own[key]) == key), None)
            else:
                parent = facts.parent if facts.parent in parents else None
            if parent is None:
                raise self._damaged(f"a positional key does not follow from the one before it: {key.hex()}")
            if key in self._shared:
                self._shared[key] = _Facts(facts.num_tokens, True, parent)
            parents = [key]

    def _facts(self, key: bytes, own: dict[bytes, ChunkHeader], *, positional: bool) -> _Facts:
        header = own.get(key)
        facts = self._shared.get(key) if header is None else _Facts(header.num_tokens, header.positional)
        if facts is None or facts.positional != positional:
            raise self._damaged(f"a document names a record that is not there: {key.hex()}")
        return facts

    def _damaged(self, reason: str) -> Exception:
        return self._reader.frames.damaged(reason)


def _is_of(identity: StoreIdentity, header: ChunkHeader) -> bool:
    return (header.fingerprint, header.recipe) == (identity.fingerprint, identity.recipe)


def _link_key(parent: bytes, header: ChunkHeader) -> bytes:
    return positional_key(parent, header.fingerprint, header.recipe, header.token_ids)
