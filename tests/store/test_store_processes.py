"""Several processes, and processes that die: whole documents only, one writer, readers undisturbed."""

import fcntl
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from store_contract import A
from store_samples import IDENTITY, audit, make_entry, raw_environment, run_script

from store import ChunkStore, StoreBusy

NUM_KILLS = 25
WRITER = """
import itertools, random
from store import ChunkStore
from store_samples import make_entry, make_record
choose = random.Random(int(sys.argv[2]))
records = [make_record(4 * seed, layer_bytes=20_000) for seed in range(40)]
with ChunkStore.open(sys.argv[1]) as store, store.writer_lock():
    print("writing", flush=True)
    for _ in itertools.count():
        name, chosen = f"/{choose.randrange(6)}", choose.sample(records, choose.randrange(12))
        if choose.random() < 0.2:
            store.remove_document(name)
        else:
            store.put_document(make_entry(name, chosen), chosen)
"""


def kill(process) -> None:
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_killed_writer_leaves_whole_documents_only(tmp_path):
    path = tmp_path / "store"
    ChunkStore.create(path, IDENTITY).close()
    delays, seen = random.Random(0), set()
    for number in range(NUM_KILLS):
        writer = run_script(WRITER, path, number)
        assert writer.stdout.readline() == "writing\n"
        time.sleep(delays.uniform(0, 0.04))
        kill(writer)
        with ChunkStore.open(path) as store, store.snapshot() as snapshot:
            for entry in snapshot.documents():
                headers = {key: snapshot.header(key) for key in entry.chunk_keys}
                assert all(snapshot.verify(key, header) for key, header in headers.items())
            assert snapshot.damaged == []
        seen |= audit(path)
    assert len(seen) > 1


def test_readers_see_whole_documents_while_another_process_writes(tmp_path):
    path = tmp_path / "store"
    ChunkStore.create(path, IDENTITY).close()
    writer = run_script(WRITER, path, 1)
    assert writer.stdout.readline() == "writing\n"
    transactions = set()
    with ChunkStore.open(path, readonly=True) as store:
        while len(transactions) < 15:
            with store.snapshot() as snapshot:
                entries = list(snapshot.documents())
                keys = {key for entry in entries for key in entry.chunk_keys}
                assert all(snapshot.verify(key, snapshot.header(key)) for key in keys)
                transactions.add(tuple(entries))
    kill(writer)


HOLDER = """
from store import ChunkStore
with ChunkStore.open(sys.argv[1]) as store, store.writer_lock():
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_one_process_holds_the_writer_lock(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        holder = run_script(HOLDER, store.path)
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy, match="another process is writing"), store.writer_lock(wait=False):
            pass
        store.put_meta("readers and single writes", b"go on")
        waits = []

        def let_go():
            waits.append("waited")
            holder.stdin.write("\n")
            holder.stdin.flush()

        with store.writer_lock(wait=True, on_wait=let_go):
            assert waits == ["waited"]
        with store.writer_lock(wait=False, on_wait=let_go):
            assert waits == ["waited"]
        holder.communicate()


def test_the_writer_lock_of_a_killed_process_is_free(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        holder = run_script(HOLDER, store.path)
        assert holder.stdout.readline() == "held\n"
        kill(holder)
        with store.writer_lock(wait=False):
            pass


CREATOR = """
from store import ChunkStore
from store_samples import IDENTITY, make_entry, make_record
sys.stdin.readline()
with ChunkStore.open_or_create(sys.argv[1], IDENTITY) as store:
    record = make_record(int(sys.argv[2]))
    store.put_document(make_entry("/" + sys.argv[2], [record]), [record])
"""


def test_two_processes_may_create_the_same_store_at_once(tmp_path):
    for attempt in range(4):
        path = tmp_path / f"store-{attempt}"
        creators = [run_script(CREATOR, path, seed) for seed in (10, 20)]
        for creator in creators:
            creator.stdin.write("\n")
            creator.stdin.flush()
        for creator in creators:
            creator.communicate()
            assert creator.returncode == 0
        assert audit(path) == {"/10", "/20"}


READER = """
from store import ChunkStore
with ChunkStore.open(sys.argv[1], readonly=True) as store, store.snapshot() as snapshot:
    print("reading", flush=True)
    sys.stdin.readline()
"""


def test_the_slot_of_a_dead_reader_is_freed_at_the_next_opening(tmp_path):
    ChunkStore.create(tmp_path / "store", IDENTITY).close()
    with raw_environment(tmp_path / "store") as bystander:
        reader = run_script(READER, tmp_path / "store")
        assert reader.stdout.readline() == "reading\n"
        kill(reader)
        assert str(reader.pid) in bystander.readers()
        run_script(READER, tmp_path / "store").communicate("\n")
        assert str(reader.pid) not in bystander.readers()


OPENER = """
from store import ChunkStore
ChunkStore.open(sys.argv[1]).close()
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells which files a process has open")
def test_an_opening_process_waits_for_a_writer_without_keeping_a_compaction_from_its_end(tmp_path):
    """Compacting ends with the marker's lock, taken under LMDB's write lock: an opening that had the first and waited
    for the second would stop both for good."""
    path = tmp_path / "store"
    ChunkStore.create(path, IDENTITY).close()
    lock_name = str(path / "lock.mdb")
    with raw_environment(path) as other, other.begin(write=True):
        opener = run_script(OPENER, path)
        wait_until(lambda: lock_name in opened_files(opener.pid))
        with open(path / "kvboost-store.json", "rb") as marker:
            wait_until(lambda: is_lockable(marker))
        assert opener.poll() is None, "it waits for the writer"
    opener.communicate()
    assert opener.returncode == 0


def wait_until(is_so) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that within half a minute")


def opened_files(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(link.readlink()))
    return found


def is_lockable(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


FORKER = """
import os
from store import ChunkStore, ForkedStore
store = ChunkStore.open(sys.argv[1])
uses = [
    store.stats, lambda: store.put_meta("a", b""), lambda: store.snapshot().__enter__(),
    lambda: ChunkStore.open(sys.argv[1]),
]
if os.fork() == 0:
    for use in uses:
        try:
            use()
        except ForkedStore as error:
            print(error)
    store.close()
    sys.exit(0)
print(os.wait()[1])
store.put_meta("still", b"fine")
"""


def test_a_store_is_refused_in_a_forked_child_and_stays_fine_in_the_parent(tmp_path):
    ChunkStore.create(tmp_path / "store", IDENTITY).close()
    process = run_script(FORKER, tmp_path / "store")
    output, _ = process.communicate()
    assert process.returncode == 0
    refusal = f"a store opened before a fork is not usable after it: {tmp_path / 'store'}"
    assert sorted(output.splitlines()) == ["0", *[refusal] * 4]
    with ChunkStore.open(tmp_path / "store") as store, store.snapshot() as snapshot:
        assert snapshot.meta("still") == b"fine"


GROWER = """
from store import ChunkStore
from store_samples import make_entry, make_record
records = [make_record(4 * seed, layer_bytes=100_000) for seed in range(20)]
with ChunkStore.open(sys.argv[1]) as store:
    store.put_document(make_entry("/big", records), records)
"""


def test_a_map_that_another_process_grew_is_taken_over(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY, map_bytes=1 << 20) as store:
        grower = run_script(GROWER, store.path)
        grower.communicate()
        assert grower.returncode == 0
        with store.snapshot() as snapshot:
            assert list(snapshot.document_names()) == ["/big"]
        store.put_document(make_entry("/small", [A]), [A])
    assert audit(tmp_path / "store") == {"/big", "/small"}


def test_importing_the_store_needs_no_torch_and_no_numpy():
    process = run_script("import store; print({'torch', 'numpy'} & set(sys.modules))")
    assert process.communicate()[0] == "set()\n"
