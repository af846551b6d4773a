"""The documents of a store as something to take them from: for a bundle, or for another store."""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from store import ChunkHeader, ChunkRecord, ChunkStore, DocumentEntry, Snapshot, positional_key

from ..documents import Skipped
from .fillers import META_NAME


@dataclass(frozen=True)
class StoredDocument:
    """A document whose content records are all sound; use it before the next one is taken."""

    source: "StoreSource"
    snapshot: Snapshot
    entry: DocumentEntry
    preamble: bytes | None

    def preambles(self) -> Iterator[ChunkRecord]:
        """The preamble that its exact records stand behind, if none was given out yet."""
        if self.preamble is not None and self.preamble not in self.source.given_preambles:
            self.source.given_preambles.add(self.preamble)
            yield _record(self.snapshot, self.preamble, self.snapshot.position_header(self.preamble))

    def records(self, wanted: Collection[bytes]) -> Iterator[ChunkRecord]:
        """Its records under the ``wanted`` keys, one at a time, content first; their layers end with the document."""
        for key in dict.fromkeys(self.entry.chunk_keys):
            if key in wanted:
                yield _record(self.snapshot, key, self.snapshot.header(key))
        for key in self.entry.position_keys:
            if key in wanted:
                yield _record(self.snapshot, key, self.snapshot.position_header(key))


class StoreSource:
    """An open store to take documents from; each is read within a snapshot of its own."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self.identity = store.identity
        self.given_preambles: set[bytes] = set()
        self._parents: list[bytes] = []
        with store.snapshot() as snapshot:
            self.fillers = snapshot.meta(META_NAME)

    @property
    def num_documents(self) -> int:
        """How many documents the store has."""
        return self._store.stats().num_documents

    def documents(self, names: Sequence[str] | None = None) -> Generator[StoredDocument | Skipped, None, None]:
        """All documents, or the named ones, in the order of their names; with the reason those that are not whole.

        Exact records that are not all there are left out: they can be made again.
        """
        if names is None:
            with self._store.snapshot() as snapshot:
                names = list(snapshot.document_names())
        for name in names:
            with self._store.snapshot() as snapshot:
                yield self._look_at(snapshot, name)

    def _look_at(self, snapshot: Snapshot, name: str) -> StoredDocument | Skipped:
        entry = snapshot.document(name)
        if entry is None:
            return Skipped(name, "it is not in the store any more", failed=True)
        if entry.recipe != self.identity.recipe.hex():
            return Skipped(name, "it was indexed with other settings than the store has now", failed=True)
        content = {key: snapshot.header(key) for key in entry.chunk_keys}
        num_lacking = sum(not _is_sound(snapshot, key, header) for key, header in content.items())
        if num_lacking:
            return Skipped(name, f"chunks of it are evicted, missing or damaged: {num_lacking:,}", failed=True)
        parent = self._sound_parent(snapshot, entry)
        if parent is None:
            entry = replace(entry, position_keys=())
        return StoredDocument(self, snapshot, entry, parent)

    def _sound_parent(self, snapshot: Snapshot, entry: DocumentEntry) -> bytes | None:
        """The key of the preamble before the document's exact records, if it and all of them are sound."""
        links = {key: snapshot.position_header(key) for key in entry.position_keys}
        if not links or not all(_is_sound(snapshot, key, header) for key, header in links.items()):
            return None
        first = entry.position_keys[0]
        header = links[first]
        assert header is not None, "a sound record has a header"
        for parent in chain(tuple(self._parents), self._other_preambles(snapshot)):
            if positional_key(parent, header.fingerprint, header.recipe, header.token_ids) == first:
                if parent not in self._parents:
                    self._parents.append(parent)
                stored = snapshot.position_header(parent)
                return parent if _is_sound(snapshot, parent, stored) else None
        return None

    def _other_preambles(self, snapshot: Snapshot) -> Iterator[bytes]:
        return (key for key in snapshot.preamble_keys() if key not in self._parents)


def _is_sound(snapshot: Snapshot, key: bytes, header: ChunkHeader | None) -> bool:
    return header is not None and snapshot.verify(key, header)


def _record(snapshot: Snapshot, key: bytes, header: ChunkHeader | None) -> ChunkRecord:
    """The record, which was found sound in this snapshot."""
    assert header is not None, "a snapshot does not change"
    return ChunkRecord(key, header, [snapshot.layer(key, layer, header) for layer in range(header.num_layers)])
