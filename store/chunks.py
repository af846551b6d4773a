"""The chunk store: what an index has computed, kept in one LMDB environment per directory.

Bytes in, bytes out. Every write is one transaction that is on disk when the call returns, or did not happen.
Reads go through `snapshot()`. The layout of records is told in `snapshot`, of headers in `header`, of keys in
`keys`, of the directory in `marker`. The other databases: `documents` by name, `refs` and `position_refs` (how
often a chunk or a positional record is named), `asks` by number, `meta` by name, `usage` (attention, see `importance`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from . import writing
from .asks import append_ask, collect_stats
from .creating import found_environment
from .environment import DEFAULT_MAP_BYTES, Environment, open_environment
from .errors import (
    ModelMismatch,
    RecipeMismatch,
    SnapshotInUse,
    StoreClosed,
    StoreExists,
    StoreReadonly,
)
from .eviction import Rank, by_importance
from .filesystem import resolve_local
from .importance import add_attention
from .locking import hold_writer_lock
from .marker import DirectoryState, inspect_directory, require_store
from .names import IDENTITY_KEY, meta_key
from .records import AskEntry, ChunkRecord, DocumentEntry, StoreIdentity, StoreStats
from .room import ANYTHING, Wanted, write_within_budget
from .snapshot import Snapshot
from .transactions import WriteTransaction
from .translation import os_errors_translated

T = TypeVar("T")


class ChunkStore:
    """An open store; made by `create`, `open` or `open_or_create`, ended by `close` or a `with` block.

    `rank` tells which records give way when a write does not fit the budget (see `budgeting`).
    """

    def __init__(self, path: Path, environment: Environment, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self.rank: Rank = by_importance
        self._open_environment: Environment | None = environment

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], identity: StoreIdentity, *, map_bytes: int = DEFAULT_MAP_BYTES
    ) -> Self:
        """A new store in `path`, which is missing or an empty directory. `map_bytes` is address space only.

        Raises StoreExists, NotAStore, NetworkFileSystem, StoreReadonly, StoreFull.
        """
        directory = resolve_local(path)
        if inspect_directory(directory) is DirectoryState.STORE:
            raise StoreExists(directory)
        with os_errors_translated(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with hold_writer_lock(directory):
                if inspect_directory(directory) is DirectoryState.STORE:
                    raise StoreExists(directory)
                return cls(directory, found_environment(directory, identity, map_bytes), readonly=False)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        identity: StoreIdentity | None = None,
        readonly: bool = False,
        map_bytes: int = DEFAULT_MAP_BYTES,
    ) -> Self:
        """The store in `path`; with an `identity`, only if it is the store's.

        Raises StoreNotFound, NotAStore, UnknownFormat, StoreDamaged, StoreReadonly, StoreUnreadable,
        NetworkFileSystem, ModelMismatch, RecipeMismatch.
        """
        directory = resolve_local(path)
        require_store(directory)
        environment = open_environment(directory, writable=not readonly, map_bytes=map_bytes)
        store = cls(directory, environment, readonly)
        try:
            store.require_identity(identity or store.identity)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open_or_create(
        cls, path: str | os.PathLike[str], identity: StoreIdentity, *, map_bytes: int = DEFAULT_MAP_BYTES
    ) -> Self:
        """Opens the store in `path` with this identity, or creates it; raises what these two do."""
        try:
            return cls.create(path, identity, map_bytes=map_bytes)
        except StoreExists:
            return cls.open(path, identity=identity, map_bytes=map_bytes)

    @property
    def identity(self) -> StoreIdentity:
        """Whose keys and values the store holds, as stored now."""
        with self._environment.read() as txn:
            return writing.read_identity(txn, self.path)

    def require_identity(self, wanted: StoreIdentity) -> None:
        """Raises ModelMismatch or RecipeMismatch unless the store's identity has the same hashes."""
        stored = self.identity
        if stored.fingerprint != wanted.fingerprint:
            raise ModelMismatch(self.path, str(stored), str(wanted))
        if stored.recipe != wanted.recipe:
            raise RecipeMismatch(self.path, stored.recipe_differences(wanted))

    def replace_identity(self, identity: StoreIdentity) -> None:
        """Makes the store another's, for an index that starts over; positional records are dropped.

        Documents keep their entries, which name no positional record from then on, and old chunks until each is put
        again or removed.
        """

        def replace(txn: WriteTransaction) -> None:
            writing.drop_positions(txn)
            txn.put("meta", IDENTITY_KEY, identity.to_bytes())

        self._write(replace)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One consistent state to read from. Keep it short: the file grows while it is open.

        Raises SnapshotInUse at its end if a buffer made from one of its views is still held.
        """
        with self._environment.read() as txn:
            snapshot = Snapshot(txn)
            try:
                yield snapshot
            except BaseException:
                snapshot.end()
                raise
            num_held = snapshot.end()
            if num_held:
                raise SnapshotInUse("layers are still held at the end of their snapshot", num_held)

    def put_document(self, entry: DocumentEntry, records: Iterable[ChunkRecord]) -> int:
        """Stores a document whole, in place of its previous entry; returns the bytes written.

        `records` are those among `entry.chunk_keys` and `entry.position_keys` that may be new; one that is stored
        and sound is only counted. Records that the previous entry named, and no document does any more, are dropped.
        Raises MissingChunk if a record is neither stored nor evicted nor given, ForeignRecord, StoreFull; nothing
        is written then.
        """
        given = tuple(records)

        def put(txn: WriteTransaction) -> int:
            writing.require_own_records(writing.read_identity(txn, self.path), given)
            return writing.write_document(txn, entry, given)

        num_bytes = sum(record.header.total_bytes for record in given)
        return self._write(put, Wanted(num_bytes, {*entry.chunk_keys, *entry.position_keys}))

    def remove_document(self, name: str) -> bool:
        """Removes a document and the records that no other names; False if there is none of that name."""
        return self._write(lambda txn: writing.delete_document(txn, name))

    def touch_document(self, entry: DocumentEntry) -> None:
        """Stores new facts (time, size) of a document whose records are the same; raises MissingDocument."""
        self._write(lambda txn: writing.rewrite_entry(txn, entry))

    def put_position(self, record: ChunkRecord) -> int:
        """Stores a positional record that no document has to name; returns the bytes written, 0 if it is there already.

        Raises ForeignRecord, StoreFull.
        """
        assert record.header.positional, "a content record belongs to a document"

        def put(txn: WriteTransaction) -> int:
            writing.require_own_records(writing.read_identity(txn, self.path), [record])
            return writing.write_record(txn, record)

        return self._write(put, Wanted(record.header.total_bytes))

    def put_meta(self, name: str, data: bytes) -> None:
        """Stores `data` under `name`, over what was there."""
        self._write(lambda txn: txn.put("meta", meta_key(name), data))

    def record_ask(self, ask: AskEntry, attention: Mapping[bytes, float] | None = None) -> None:
        """Adds an ask to what `stats` sums up, and the `attention` that it gave each chunk, by content key."""

        def record(txn: WriteTransaction) -> None:
            append_ask(txn, ask)
            add_attention(txn, attention or {}, ask.at)

        self._write(record)

    def stats(self) -> StoreStats:
        """What the store holds and what it earned."""
        with self._environment.read() as txn:
            return collect_stats(txn, self.path)

    def writer_lock(
        self,
        wait: bool = True,
        on_wait: Callable[[], None] | None = None,
    ) -> AbstractContextManager[None]:
        """Keeps other processes from indexing into this store; freed by the system if this process dies.

        While another holds it: StoreBusy if `wait` is False, else `on_wait` is called once. Not reentrant.
        """
        if self.readonly:
            raise StoreReadonly(self.path)
        return hold_writer_lock(self.path, wait=wait, on_wait=on_wait)

    def close(self) -> None:
        """Ends the use of the store; raises SnapshotInUse while one of its snapshots is open."""
        if self._open_environment:
            self._open_environment.release()
            self._open_environment = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _environment(self) -> Environment:
        if self._open_environment is None:
            raise StoreClosed(self.path)
        return self._open_environment

    def _write(self, operation: Callable[[WriteTransaction], T], wanted: Wanted = ANYTHING) -> T:
        environment = self._environment
        if self.readonly:
            raise StoreReadonly(self.path)
        return write_within_budget(environment, operation, wanted, self.rank)
