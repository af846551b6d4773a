"""A budget holds while other processes read, write and are killed."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_budgets import BUDGET, faults, put, put_all, stored_numbers
from store_samples import IDENTITY, run_script

from store import Budget, ChunkStore, StoreFull, room, set_budget
from store.budget import disk_bytes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChunkStore]:
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        set_budget(store, Budget(BUDGET))
        yield store


READ_ON = """
from store import ChunkStore
with ChunkStore.open(sys.argv[1], readonly=True) as store, store.snapshot() as snapshot:
    print("reading", flush=True)
    sys.stdin.readline()
    print(sum(snapshot.verify(key, header) for entry in snapshot.documents() for key in entry.chunk_keys
              if (header := snapshot.header(key))), flush=True)
"""


def test_a_reader_that_stays_keeps_what_it_sees_and_writers_wait_for_it(store: ChunkStore) -> None:
    for number in range(12):
        put(store, number)
    num_stored = store.stats().num_chunks
    reader = run_script(READ_ON, store.path)
    assert reader.stdout.readline() == "reading\n"
    release = threading.Timer(0.6, lambda: (reader.stdin.write("\n"), reader.stdin.flush()))
    release.start()
    for number in range(20, 32):
        put(store, number)
    release.join()
    assert reader.communicate()[0] == f"{num_stored}\n"
    assert disk_bytes(store.path) <= 1.02 * BUDGET
    assert stored_numbers(store, range(20, 32)) == set(range(20, 32)) or store.stats().num_evicted


def test_a_reader_that_never_ends_fails_the_write_and_does_not_empty_the_store(
    store: ChunkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "WAITS_S", (0.0,) * 8)
    for number in range(12):
        put(store, number)
    reader = run_script(READ_ON, store.path)
    assert reader.stdout.readline() == "reading\n"
    with pytest.raises(StoreFull, match="still read"):
        put_all(store, range(20, 60))
    assert store.stats().live_bytes > BUDGET / 2
    reader.communicate("\n")
    put(store, 70)
    assert stored_numbers(store, range(70, 71)) == {70}
    assert faults(store) == []


WRITE_MANY = """
from store import ChunkStore
from store_samples import make_entry, make_record
with ChunkStore.open(sys.argv[1]) as store:
    for number in range(int(sys.argv[3])):
        record = make_record(int(sys.argv[2]) + 10 * number, layer_bytes=300_000)
        store.put_document(make_entry(f"/{sys.argv[2]}/{number}", [record]), [record])
        print(number, flush=True)
"""


def test_two_processes_keep_one_budget(store: ChunkStore) -> None:
    writers = [run_script(WRITE_MANY, store.path, first, 20) for first in (10_000, 20_000)]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert disk_bytes(store.path) <= 1.02 * BUDGET
    stats = store.stats()
    assert stats.num_documents == stats.num_chunks + stats.num_evicted == 40
    assert stats.num_evicted > 20
    assert faults(store) == []


def test_a_writer_that_is_killed_while_it_makes_room_leaves_a_sound_store(store: ChunkStore) -> None:
    source = random.Random(6)
    for first in (10_000, 20_000, 30_000):
        writer = run_script(WRITE_MANY, store.path, first, 1000)
        for _ in range(source.randint(16, 22)):
            assert writer.stdout.readline()
        time.sleep(source.random() / 20)  # anywhere in the next writes
        writer.kill()
        writer.communicate()
        assert faults(store) == []
        assert disk_bytes(store.path) <= 1.02 * BUDGET
    assert store.stats().num_evicted > 20


def test_the_first_write_within_a_snapshot_is_refused_and_later_ones_are_bounded(store: ChunkStore) -> None:
    """LMDB's map cannot be made to end elsewhere while it is read from here."""
    with store.snapshot(), pytest.raises(StoreFull, match="while a snapshot is open"):
        put(store, 1)
    put(store, 1)
    with store.snapshot():
        put(store, 2)
    assert stored_numbers(store, range(4)) == {1, 2}
