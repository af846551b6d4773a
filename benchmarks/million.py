"""A store of a million chunks: opening, lookup, stats, choosing what to drop, prune.

Run it as `python benchmarks/million.py [CHUNKS]`.

Chunks have 256 token ids, as real ones, and two short layers: what is looked up is a header, and bytes of layers are
read only for what a prompt uses. A lookup takes 32 random chunks, as a prompt of 8,000 tokens needs them: their headers
are read, checked, and their token ids compared. Nothing but the files' place in the system's cache is warm.
"""

import random
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, time

from kvboost_cli.pipelines.overview import read_overview
from store import (
    ChunkRecord,
    ChunkStore,
    DocumentEntry,
    StoreIdentity,
    build_record,
    by_importance,
    content_key,
    prune_orphans,
)  # fmt: skip
from store.eviction import find_victims

IDENTITY = StoreIdentity(b"F" * 32, "model", b"R" * 32, {"bits": 8})
CHUNKS_PER_DOCUMENT, TOKENS_PER_CHUNK, CHUNKS_PER_LOOKUP, NUM_LOOKUPS = 100, 256, 32, 1000
LAYERS = (b"k" * 64, b"v" * 64)


def token_ids(number: int) -> tuple[int, ...]:
    return (number, *range(1, TOKENS_PER_CHUNK))


def make_record(number: int) -> ChunkRecord:
    ids = token_ids(number)
    return build_record(
        content_key(IDENTITY.fingerprint, IDENTITY.recipe, ids), LAYERS, fingerprint=IDENTITY.fingerprint,
        recipe=IDENTITY.recipe, dtype="bfloat16", bits=8, group=32, kv_heads=3, key_dim=64, value_dim=64, token_ids=ids,
    )  # fmt: skip


def fill(store: ChunkStore, num_chunks: int) -> Iterator[int]:
    """Documents of 100 chunks each; yields how many chunks are stored."""
    for first in range(0, num_chunks, CHUNKS_PER_DOCUMENT):
        records = [make_record(number) for number in range(first, min(first + CHUNKS_PER_DOCUMENT, num_chunks))]
        keys = tuple(record.key for record in records)
        store.put_document(DocumentEntry(f"/notes/{first}", "/notes", 1, 1, "", "text", "", 1, keys, 0.0), records)
        yield first + len(records)


def lookup(store: ChunkStore, numbers: list[int], keys: list[bytes]) -> None:
    with store.snapshot() as snapshot:
        for number, key in zip(numbers, keys, strict=True):
            header = snapshot.header(key)
            assert header is not None
            assert tuple(header.token_ids) == token_ids(number)


def lookup_times(store: ChunkStore, num_chunks: int) -> list[float]:
    chance, times = random.Random(1), []
    for _ in range(NUM_LOOKUPS):
        numbers = chance.sample(range(num_chunks), CHUNKS_PER_LOOKUP)
        keys = [content_key(IDENTITY.fingerprint, IDENTITY.recipe, token_ids(number)) for number in numbers]
        started = perf_counter()
        lookup(store, numbers, keys)
        times.append(perf_counter() - started)
    return times


def timed(name: str, work: Callable[[], object]) -> None:
    started = perf_counter()
    work()
    print(f"{name:<44}{(perf_counter() - started) * 1000:10,.1f} ms")


def choose(store: ChunkStore) -> None:
    with store._environment.read() as txn:
        assert find_victims(txn, 3_300_000, (), by_importance, 0).records


def measure(path: Path, num_chunks: int) -> None:
    timed("open and close", lambda: ChunkStore.open(path).close())
    with ChunkStore.open(path) as store:
        times = lookup_times(store, num_chunks)
        print(f"{'lookup of 32 chunks, median':<44}{median(times) * 1000:10,.2f} ms")
        print(f"{'lookup of 32 chunks, 99 of 100 are under':<44}{quantiles(times, n=100)[-1] * 1000:10,.2f} ms")
        timed("counts of stats", store.stats)
        timed("all of stats", lambda: read_overview(store, time()))
        timed("one choice of what to drop", lambda: choose(store))
        timed("remove a document of 100 chunks", lambda: store.remove_document("/notes/0"))
        timed("prune: look for what no document names", lambda: prune_orphans(store))


def main() -> None:
    num_chunks = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with ChunkStore.create(path, IDENTITY) as store:
            started = perf_counter()
            for done in fill(store, num_chunks):
                if done % 100_000 == 0:
                    print(f"stored {done:,} chunks, {perf_counter() - started:,.0f} s", file=sys.stderr)
        print(f"{num_chunks:,} chunks, {sum(file.stat().st_size for file in path.iterdir()) / 1e9:.1f} GB")
        measure(path, num_chunks)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, mapped pages included")


if __name__ == "__main__":
    main()
