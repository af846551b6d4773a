"""What checking a layer's checksum on each read costs, against copying the same bytes: python benchmarks/checksum.py

A layer of the default model at 8 bits: 256 tokens, 110,592 bytes. Layers are read in an order in which they are not
in the processor's caches, and from a store's memory map as `ask` reads them.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from xxhash import xxh3_64_intdigest

from store import ChunkRecord, ChunkStore, DocumentEntry, StoreIdentity, build_record, content_key

LAYER_BYTES, NUM_LAYERS, NUM_CHUNKS, NUM_RUNS = 110_592, 30, 64, 7
IDENTITY = StoreIdentity(b"F" * 32, "model", b"R" * 32, {"bits": 8})


def make_record(number: int) -> ChunkRecord:
    token_ids = range(number * 1000, number * 1000 + 256)
    layers = [bytes([number, layer]) * (LAYER_BYTES // 2) for layer in range(NUM_LAYERS)]
    return build_record(
        content_key(IDENTITY.fingerprint, IDENTITY.recipe, token_ids), layers, fingerprint=IDENTITY.fingerprint,
        recipe=IDENTITY.recipe, dtype="bfloat16", bits=8, group=32, kv_heads=3, key_dim=64, value_dim=64,
        token_ids=token_ids,
    )  # fmt: skip


def fill(store: ChunkStore) -> list[ChunkRecord]:
    records = [make_record(number) for number in range(NUM_CHUNKS)]
    keys = tuple(record.key for record in records)
    store.put_document(DocumentEntry("/a", "/", 1, 1, "", "text", "", 1, keys, 0.0), records)
    return records


def best_gb_per_s(work: Callable[[], None]) -> float:
    seconds = []
    for _ in range(NUM_RUNS):
        started = perf_counter()
        work()
        seconds.append(perf_counter() - started)
    return LAYER_BYTES * NUM_LAYERS * NUM_CHUNKS / min(seconds) / 1e9


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, ChunkStore.create(Path(directory) / "store", IDENTITY) as store:
        records = fill(store)
        target = bytearray(LAYER_BYTES)
        with store.snapshot() as snapshot:
            views = [
                snapshot.layer(record.key, layer, record.header) for record in records for layer in range(NUM_LAYERS)
            ]

            def copy() -> None:
                for view in views:
                    target[:] = view

            def check() -> None:
                for view in views:
                    xxh3_64_intdigest(view)

            print(f"copy: {best_gb_per_s(copy):.1f} GB/s, xxh3_64: {best_gb_per_s(check):.1f} GB/s")


if __name__ == "__main__":
    main()
