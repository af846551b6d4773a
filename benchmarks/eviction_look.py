"""How long a full store takes to choose what to drop, by the number of its records: python benchmarks/eviction_look.py

The records are counted and used, and have no layers: a look at what to drop does not read any.
"""

import random
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from store import ChunkStore, StoreIdentity
from store.eviction import NUM_LOOKED, by_importance, find_victims
from store.importance import ChunkAttention
from store.transactions import WriteTransaction
from store.writing import ChunkUse

IDENTITY = StoreIdentity(bytes(32), "none", bytes(32), {})
SIZES = (10_000, 100_000, 1_000_000)
RECORD_BYTES = 3_300_000


def fill(txn: WriteTransaction, num_records: int, source: random.Random) -> None:
    for number in range(num_records):
        key = ((number << 64) // num_records).to_bytes(8, "big") + source.randbytes(24)  # in order, and spread evenly
        txn.put("refs", key, ChunkUse(1, 256, RECORD_BYTES).to_bytes())
        known = ChunkAttention(source.random(), source.random() * 1e7, 3, 3.0)
        txn.put("usage", key, known.to_bytes())


def measure(num_records: int, folder: Path) -> tuple[float, int]:
    """Seconds of one look, and how many records it chose."""
    source = random.Random(num_records)
    with ChunkStore.create(folder, IDENTITY) as store:
        store._write(lambda txn: fill(txn, num_records, source))
        started = perf_counter()
        with store._environment.read() as txn:
            victims = find_victims(txn, RECORD_BYTES, (), by_importance, 0)
        return perf_counter() - started, len(victims.records)


def main() -> None:
    print(f"a look sees about {NUM_LOOKED:,} records at most")
    for num_records in map(int, sys.argv[1:] or SIZES):
        with TemporaryDirectory() as folder:
            seconds, num_chosen = measure(num_records, Path(folder) / "store")
        each_us = seconds / num_chosen * 1e6
        print(f"{num_records:>9,} records: {seconds:6.3f} s, {num_chosen:,} chosen, {each_us:,.0f} us each")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, mapped pages included")


if __name__ == "__main__":
    main()
