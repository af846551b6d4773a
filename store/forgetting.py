"""Forgetting documents: their entries, the records that are theirs alone, and their names in past asks.

What was removed stays readable in free pages of the data file until it is compacted.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from .asks import parse_ask
from .chains import read_chains
from .chunks import ChunkStore
from .counting import named_keys
from .names import document_key, meta_key
from .snapshot import Snapshot
from .transactions import ReadTransaction, WriteTransaction
from .writing import CONTENT, POSITIONAL, delete_document


@dataclass(frozen=True)
class Forgotten:
    """`num_records` were dropped; `num_kept_records` stay, since other documents have the same text; `num_asks` past
    asks no longer name the documents.
    """

    num_documents: int
    num_records: int
    num_kept_records: int
    num_asks: int


def asked_names(store: ChunkStore) -> set[str]:
    """The documents that kept asks name, whether or not they are stored."""
    with store._environment.read() as txn:
        return {name for _, data in txn.scan("asks") for ask in parse_ask(data) for name in ask.documents}


def forget_documents(store: ChunkStore, names: Collection[str], meta: Mapping[str, bytes]) -> Forgotten:
    """Removes documents, their records and their names, and stores `meta` by name, all in one transaction."""
    return store._write(partial(_forget, names=names, meta=meta))


def _forget(txn: WriteTransaction, names: Collection[str], meta: Mapping[str, bytes]) -> Forgotten:
    num_documents = sum(txn.get("documents", document_key(name)) is not None for name in names)
    keys = _keys(txn, names)
    for name in names:
        delete_document(txn, name)
    for name, data in meta.items():
        txn.put("meta", meta_key(name), data)
    num_kept = sum(txn.get(database, key) is not None for database, key in keys)
    return Forgotten(num_documents, len(keys) - num_kept, num_kept, _forget_asks(txn, names))


def _keys(txn: ReadTransaction, names: Collection[str]) -> set[tuple[str, bytes]]:
    """Database and key of each stored record of the documents."""
    entries = [entry for entry in map(Snapshot(txn).document, names) if entry is not None]
    named = {
        (kind.records, key) for entry in entries for kind in (CONTENT, POSITIONAL) for key in named_keys(entry, kind)
    }
    chained = {(POSITIONAL.records, key) for chain in read_chains(txn) for key in chain.cut_keys(names)}
    return {(database, key) for database, key in named | chained if txn.get(database, key) is not None}


def _forget_asks(txn: WriteTransaction, names: Collection[str]) -> int:
    """Takes the names out of kept asks, whose counts stay; a damaged one, which could have any name, is dropped."""
    for key in [key for key, data in txn.scan("asks") if not list(parse_ask(data))]:
        txn.delete("asks", key)
    changed = {
        key: ask.without(names)
        for key, data in txn.scan("asks")
        for ask in parse_ask(data)
        if set(ask.documents).intersection(names)
    }
    for key, ask in changed.items():
        txn.put("asks", key, ask.to_bytes())
    return len(changed)
