"""Stores with a budget of 16 MB, and records that soon fill it."""

from dataclasses import replace

from store_samples import make_entry, make_record

from store import ChunkRecord, ChunkStore, Fault, Rules, check_store

BUDGET = 16_000_000
MB = 1_000_000


def large(number: int, size: int = 300_000) -> ChunkRecord:
    """A record of three layers, not all of one size, as chunks are."""
    return make_record(10 * number, layer_bytes=size + 40_000 * (number % 5))


def put(store: ChunkStore, number: int, at: float = 0.0, name: str | None = None) -> ChunkRecord:
    record = large(number)
    entry = replace(make_entry(name or f"/{number}", [record]), indexed_at=at)
    store.put_document(entry, [record])
    return record


def put_all(store: ChunkStore, numbers: range) -> None:
    for number in numbers:
        put(store, number)


def stored_numbers(store: ChunkStore, numbers: range) -> set[int]:
    with store.snapshot() as snapshot:
        return {number for number in numbers if snapshot.header(large(number).key)}


def faults(store: ChunkStore) -> list[Fault]:
    return [found for found in check_store(store, Rules()) if isinstance(found, Fault)]
