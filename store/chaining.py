"""Storing chains over several documents, and dropping them."""

import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from . import writing
from .chains import ChainEntry, read_chains
from .chunks import ChunkStore
from .records import ChunkRecord, DocumentEntry
from .room import Wanted
from .snapshot import Snapshot
from .transactions import WriteTransaction


def put_chain(
    store: ChunkStore, chain: ChainEntry, documents: Sequence[DocumentEntry], records: Iterable[ChunkRecord]
) -> int | None:
    """Stores a chain with those of its `records` that may be new; returns the bytes written.

    `documents` are the entries that it was made from. If one has changed since, nothing is stored, and None is
    returned: nobody will ask for the old text. Raises MissingChunk, ForeignRecord, StoreFull; nothing is written then.
    """
    given, at = tuple(records), time.time()

    def put(txn: WriteTransaction) -> int | None:
        reader = Snapshot(txn)
        for document in documents:
            stored = reader.document(document.name)
            if stored is None or stored.chunk_keys != document.chunk_keys:
                return None
        writing.require_own_records(writing.read_identity(txn, store.path), given)
        return writing.write_chain(txn, chain, given, at)

    num_bytes = sum(record.header.total_bytes for record in given)
    return store._write(put, Wanted(num_bytes, set(chain.position_keys)))


def drop_chains(store: ChunkStore, keys: Collection[bytes]) -> None:
    """Removes chains by their `key`, and the records that nothing else names."""
    if keys:
        store._write(partial(_drop, keys=keys))


def _drop(txn: WriteTransaction, keys: Collection[bytes]) -> None:
    for chain in [chain for chain in read_chains(txn) if chain.key in keys]:
        writing.delete_chain(txn, chain)
