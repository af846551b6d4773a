"""Compaction: the same content in a smaller file, whoever is at work meanwhile and wherever it is cut short."""

import os
import random
import shutil
import stat
import time
from collections.abc import Iterator

import pytest
from positions_contract import P, Q
from store_contract import A, B
from store_samples import IDENTITY, audit, make_entry, make_position, make_record, raw_items, run_script
from test_store_processes import kill

from store import ChunkStore, SnapshotInUse, StoreFull, StoreReadonly, compact_store
from store.compacting import require_room
from store.swapping import COPY_NAME, READY_NAME
from store.transactions import DATABASES

BIG = [make_record(4 * seed, layer_bytes=50_000) for seed in range(20)]


@pytest.fixture
def path(tmp_path):
    """A closed store whose file is mostly free pages."""
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.put_position(make_position(10))
        store.put_document(make_entry("/big", BIG), BIG)
        store.remove_document("/big")
    return tmp_path / "store"


@pytest.fixture
def store(path) -> Iterator[ChunkStore]:
    with ChunkStore.open(path) as store:
        yield store


def everything(path):
    return {database: raw_items(path, database) for database in DATABASES}


def test_a_compacted_file_holds_the_same_and_is_smaller(path):
    before = everything(path)
    with ChunkStore.open(path) as store, store.writer_lock():
        sizes = compact_store(store)
        assert sizes.bytes_before > 3_000_000 > 200_000 > sizes.bytes_after == (path / "data.mdb").stat().st_size
        store.put_meta("after", b"1")
    assert everything(path)["chunks"] == before["chunks"]
    assert everything(path)["positions"] == before["positions"]
    assert audit(path) == {"/a"}
    assert BIG[9].layers[0][:64] not in (path / "data.mdb").read_bytes()


def test_a_compacted_store_is_private_under_an_open_umask(path):
    previous = os.umask(0)
    try:
        with ChunkStore.open(path) as store:
            compact_store(store)
    finally:
        os.umask(previous)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
    assert {file.name for file in path.iterdir()} == {
        "data.mdb", "lock.mdb", "kvboost-store.json", "kvboost-store.lock",
    }  # fmt: skip


def test_every_store_of_a_process_goes_on_after_compaction(store, path):
    with ChunkStore.open(path, readonly=True) as reader:
        compact_store(store)
        store.put_meta("a", b"1")
        with reader.snapshot() as snapshot:
            assert snapshot.meta("a") == b"1"
        with ChunkStore.open(path) as third:
            third.put_meta("a", b"2")
        with reader.snapshot() as snapshot:
            assert snapshot.meta("a") == b"2"


WORKER = """
from store import ChunkStore
with ChunkStore.open(sys.argv[1], readonly=sys.argv[2] == "reader") as store:
    with store.snapshot() as snapshot:
        print(len(list(snapshot.documents())), flush=True)
        sys.stdin.readline()
        assert snapshot.verify(A.key, snapshot.header(A.key))
    if not store.readonly:
        store.put_meta("from the other", b"kept")
    with store.snapshot() as snapshot:
        assert snapshot.meta("after") == b"1"
        assert snapshot.verify(A.key, snapshot.header(A.key))
"""


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_process_that_is_at_work_goes_on_and_writes_into_the_new_file(store, path, role):
    other = run_script("from store_contract import A\n" + WORKER, path, role)
    assert other.stdout.readline() == "1\n"
    compact_store(store)
    store.put_meta("after", b"1")
    other.communicate("go on\n")
    assert other.returncode == 0
    with store.snapshot() as snapshot:
        assert snapshot.meta("from the other") == (b"kept" if role == "writer" else None)


BLOCKED = """
from store import ChunkStore
with ChunkStore.open(sys.argv[1]) as store:
    print("open", flush=True)
    sys.stdin.readline()
    store.put_meta("blocked", b"kept")
"""


def test_a_write_that_waits_for_the_compaction_is_not_lost(store, path):
    """The other process begins its write while the copy is compared, and gets the lock when it is in place."""
    other = run_script(BLOCKED, path)
    assert other.stdout.readline() == "open\n"

    def let_it_write(_num_bytes):
        if not other.stdin.closed:
            other.stdin.write("\n")
            other.stdin.close()

    compact_store(store, let_it_write)
    assert other.wait() == 0
    other.stdout.close()
    with store.snapshot() as snapshot:
        assert snapshot.meta("blocked") == b"kept"


def test_writing_under_a_snapshot_of_the_old_file_is_refused(store, path):
    script = "from store import ChunkStore, compact_store\nwith ChunkStore.open(sys.argv[1]) as s: compact_store(s)"
    with store.snapshot() as snapshot:
        other = run_script(script, path)
        other.communicate()
        assert other.returncode == 0
        with pytest.raises(SnapshotInUse, match="compacted"):
            store.put_meta("a", b"1")
        assert snapshot.header(A.key) == A.header
    store.put_meta("a", b"1")


@pytest.mark.parametrize("stage", ["copy", "ready", "without lock"])
def test_a_compaction_that_was_cut_short_is_taken_up_or_thrown_away(path, stage):
    """The states that the steps of `swapping` can leave behind."""
    before = everything(path)
    shutil.copy(path / "data.mdb", path / (COPY_NAME if stage == "copy" else READY_NAME))
    if stage == "copy":
        (path / COPY_NAME).write_bytes(b"cut short")
    if stage == "without lock":
        (path / "lock.mdb").unlink()
    with ChunkStore.open(path) as store, store.writer_lock():
        store.put_meta("after", b"1")
    assert {COPY_NAME, READY_NAME}.isdisjoint(os.listdir(path))
    assert everything(path)["chunks"] == before["chunks"]
    assert audit(path) == {"/a"}


def test_a_process_that_is_at_work_takes_up_a_compaction_that_was_cut_short(store, path):
    shutil.copy(path / "data.mdb", path / READY_NAME)
    store.put_meta("a", b"1")
    assert READY_NAME not in os.listdir(path)
    with ChunkStore.open(path, readonly=True) as reader, reader.snapshot() as snapshot:
        assert snapshot.meta("a") == b"1"


COMPACTOR = """
from store import ChunkStore, compact_store
with ChunkStore.open(sys.argv[1]) as store, store.writer_lock():
    print("ready", flush=True)
    while True:
        compact_store(store)
"""


def test_a_killed_compaction_leaves_a_whole_store(path):
    delays = random.Random(3)
    for number in range(15):
        compactor = run_script(COMPACTOR, path)
        assert compactor.stdout.readline() == "ready\n"
        time.sleep(delays.uniform(0, 0.1))
        kill(compactor)
        with ChunkStore.open(path) as store, store.writer_lock():
            store.put_meta("number", str(number).encode())
        assert audit(path) == {"/a"}
        assert {COPY_NAME, READY_NAME}.isdisjoint(os.listdir(path))
    with ChunkStore.open(path) as store, store.snapshot() as snapshot:
        assert snapshot.meta("number") == b"14"


def test_without_room_for_the_copy_it_is_refused(path):
    free = shutil.disk_usage(path).free
    with pytest.raises(StoreFull, match="a compacted copy needs"):
        require_room(path, free)


FULL = """
import resource
from store import ChunkStore, StoreFull, compact_store
with ChunkStore.open(sys.argv[1]) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        compact_store(store)
    except StoreFull as error:
        print(error)
"""


def test_a_disk_that_fills_up_meanwhile_is_told_and_harms_nothing(path):
    full = run_script(FULL, path)
    output, _ = full.communicate()
    assert (full.returncode, output) == (0, f"the store {path} is full: no space left on its disk\n")
    assert COPY_NAME not in os.listdir(path)
    assert audit(path) == {"/a"}


def test_a_read_only_store_is_not_compacted(path):
    with ChunkStore.open(path, readonly=True) as store, pytest.raises(StoreReadonly):
        compact_store(store)
