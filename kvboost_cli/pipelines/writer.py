"""Encode what prepared documents lack and store them, each in one transaction."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from store import ChunkHeader, ChunkRecord, DocumentEntry, MissingChunk, Snapshot

from .cost import Cost
from .prepare import ChainLink, PreparedDocument
from .workspace import Workspace

if TYPE_CHECKING:
    from .encoding import Encoder


NONE = frozenset[bytes]()


@dataclass(frozen=True)
class Indexed:
    """One document is done. ``change`` is added, updated or unchanged; ``was_read`` is false if its facts sufficed.

    Chunks and missing tokens are those of content; positional records count among the bytes alone. ``cost`` is what a
    preview expects.
    """

    name: str
    change: str
    size_bytes: int
    was_read: bool = True
    num_tokens: int = 0
    num_new_chunks: int = 0
    num_reused_chunks: int = 0
    num_missing_tokens: int = 0
    bytes_written: int = 0
    cost: Cost | None = None


@dataclass(frozen=True)
class Encoded:
    """Tokens were encoded, of documents that are not stored yet: a sign of life within a long document.

    ``num_tokens`` are those of content chunks, ``num_exact_tokens`` those that were stored as exact.
    """

    num_tokens: int
    num_exact_tokens: int = 0


@dataclass(frozen=True)
class Waiting:
    """A prepared document with its chain, and the content keys and links' keys that have no KV yet."""

    prepared: PreparedDocument
    missing: frozenset[bytes]
    chain: tuple[ChainLink, ...]
    missing_links: frozenset[bytes]

    def lacking_only(self, key: bytes) -> "Waiting":
        """The same, with one key of either kind missing."""
        keys = frozenset({key})
        links = frozenset(link.key for link in self.chain)
        return replace(self, missing=keys - links, missing_links=keys & links)

    def without(self, left: frozenset[bytes]) -> "Waiting":
        """The same, with the keys ``left`` not missing."""
        return replace(self, missing=self.missing - left, missing_links=self.missing_links - left)

    @property
    def num_missing_tokens(self) -> int:
        """Tokens of the missing chunks."""
        sizes = {key: len(run) for key, run in zip(self.prepared.keys, self.prepared.runs, strict=True)}
        return sum(sizes[key] for key in self.missing)

    @property
    def num_waiting_tokens(self) -> int:
        """Tokens whose KV is held in memory until all that waits is stored: of missing chunks and missing links."""
        return self.num_missing_tokens + sum(
            len(link.token_ids) for link in self.chain if link.key in self.missing_links
        )


class DocumentWriter:
    """Takes prepared documents one by one; on a GPU several share a batch, on a CPU each goes by itself.

    The model is loaded with the first record that has to be encoded, so never for documents that have all.
    """

    def __init__(
        self,
        workspace: Workspace,
        pool_documents: Callable[[], Iterable[tuple[str, Sequence[int]]]],
        *,
        verify: bool = False,
    ) -> None:
        """``pool_documents`` gives a new store its fillers; ``verify`` looks for damage in stored records."""
        self._workspace, self._pool_documents, self._verify = workspace, pool_documents, verify
        self._waiting: list[Waiting] = []
        self._encoder: Encoder | None = None

    def add(
        self, prepared: PreparedDocument, damaged: frozenset[bytes] = NONE, left: frozenset[bytes] = NONE
    ) -> Iterator[Indexed | Encoded]:
        """Take a document; yields the events of those that were stored by now.

        Records among ``damaged`` are encoded again although the store has a header for them; evicted ones among
        ``left`` are not.
        """
        chain = self._workspace.chain(prepared)
        self._waiting.append(_wait(self._workspace, prepared, chain, damaged, verify=self._verify).without(left))
        num_tokens = sum(waiting.num_waiting_tokens for waiting in self._waiting)
        if not num_tokens or num_tokens >= self._loaded_encoder().batch_tokens:
            yield from self.flush()

    def flush(self) -> Iterator[Indexed | Encoded]:
        """Encode and store all documents taken so far."""
        waiting, self._waiting = self._waiting, []
        records: dict[bytes, ChunkRecord] = {}
        yield from self._encode(waiting, records)
        for item in waiting:
            yield from self._store(item, records)

    def _encode(self, waiting: Sequence[Waiting], records: dict[bytes, ChunkRecord]) -> Iterator[Encoded]:
        """Add the records of all missing chunks and links to ``records``."""
        if not any(item.missing or item.missing_links for item in waiting):
            return
        encoder = self._loaded_encoder()
        for batch in encoder.encode((item.prepared, item.missing) for item in waiting):
            records.update((record.key, record) for record in batch)
            yield Encoded(sum(record.header.num_tokens for record in batch))
        for item in waiting:
            if item.missing_links:
                for batch in encoder.encode_chain(item.chain, item.missing_links):
                    records.update((record.key, record) for record in batch)
                    yield Encoded(0, sum(record.header.num_tokens for record in batch))

    def _loaded_encoder(self) -> "Encoder":
        if self._encoder is None:
            self._encoder = self._workspace.make_encoder(self._pool_documents)
            preamble = self._encoder.preamble_record()
            if preamble is not None:
                self._workspace.store.put_position(preamble)
        return self._encoder

    def _store(self, item: Waiting, records: dict[bytes, ChunkRecord]) -> Iterator[Indexed | Encoded]:
        document = item.prepared.document
        indexed = describe(self._workspace, item)
        # the search index first: a document in the store can then always be found
        self._workspace.search.replace_document(document.name, document.content_hash, item.prepared.chunk_texts)
        entry = make_entry(item, self._workspace.recipe.digest.hex(), [link.key for link in item.chain])
        missing = item.missing | item.missing_links
        while True:
            try:
                num_bytes = self._workspace.store.put_document(entry, [records[key] for key in missing])
                break
            except MissingChunk as error:  # dropped with the last other document that had it, since we looked
                yield from self._encode([item.lacking_only(error.key)], records)
                missing |= {error.key}
        yield replace(indexed, bytes_written=num_bytes)


def _wait(
    workspace: Workspace,
    prepared: PreparedDocument,
    chain: tuple[ChainLink, ...],
    damaged: frozenset[bytes],
    *,
    verify: bool,
) -> Waiting:
    keys, links = frozenset(prepared.keys), frozenset(link.key for link in chain)
    with workspace.store.snapshot() as snapshot:
        missing = frozenset(snapshot.missing(prepared.keys)) | (damaged & keys)
        missing_links = frozenset(snapshot.missing_positions([*links])) | (damaged & links)
        if verify:
            missing |= _unsound(snapshot, keys - missing, snapshot.header)
            missing_links |= _unsound(snapshot, links - missing_links, snapshot.position_header)
    return Waiting(prepared, missing, chain, missing_links)


def _unsound(
    snapshot: Snapshot, keys: Iterable[bytes], header_of: Callable[[bytes], ChunkHeader | None]
) -> frozenset[bytes]:
    """The keys whose records have a layer that is damaged."""
    headers = {key: header_of(key) for key in keys}
    return frozenset(key for key, header in headers.items() if header is None or not snapshot.verify(key, header))


def find_missing(workspace: Workspace, keys: Sequence[bytes]) -> frozenset[bytes]:
    """The content keys that have no record yet."""
    with workspace.store.snapshot() as snapshot:
        return frozenset(snapshot.missing(keys))


def describe(workspace: Workspace, item: Waiting, cost: Cost | None = None) -> Indexed:
    """The event of a document that is stored, or with a ``cost`` would be."""
    document = item.prepared.document
    with workspace.store.snapshot() as snapshot:
        previous = snapshot.document(document.name)
    return Indexed(
        document.name,
        _change(previous, document.content_hash, workspace.recipe.digest.hex()),
        document.size_bytes,
        num_tokens=item.prepared.num_tokens,
        num_new_chunks=len(item.missing),
        num_reused_chunks=len(item.prepared.chunks) - len(item.missing),
        num_missing_tokens=item.num_missing_tokens,
        cost=cost,
    )


def make_entry(item: Waiting, recipe: str, position_keys: Sequence[bytes]) -> DocumentEntry:
    """The entry of a document whose records are all there."""
    prepared, document = item.prepared, item.prepared.document
    return DocumentEntry(
        name=document.name,
        root=document.root,
        size_bytes=document.size_bytes,
        mtime_ns=document.mtime_ns,
        content_hash=document.content_hash,
        kind=document.kind,
        recipe=recipe,
        num_tokens=prepared.num_tokens,
        chunk_keys=prepared.keys,
        indexed_at=time.time(),
        position_keys=tuple(position_keys),
    )


def _change(previous: DocumentEntry | None, content_hash: str, recipe: str) -> str:
    if previous is None:
        return "added"
    same = (previous.content_hash, previous.recipe) == (content_hash, recipe)
    return "unchanged" if same else "updated"
