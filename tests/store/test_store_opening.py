"""What may be opened, what is refused, and in which words."""

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_contract import A, B
from store_samples import (
    IDENTITY,
    OTHER_MODEL,
    OTHER_RECIPE,
    audit,
    make_entry,
    make_position,
    make_record,
    overwrite,
    raw_environment,
    run_script,
)

from store import (
    ChunkStore,
    ModelMismatch,
    NetworkFileSystem,
    NotAStore,
    RecipeMismatch,
    SnapshotInUse,
    StoreDamaged,
    StoreExists,
    StoreNotFound,
    StoreReadonly,
    UnknownFormat,
)
from store.filesystem import file_system_of, resolve_local
from store.marker import LOCK_NAME, MARKER_NAME
from store.names import IDENTITY_KEY


@pytest.fixture
def path(tmp_path) -> Path:
    """A closed store with one document."""
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B]), [A, B])
    return tmp_path / "store"


def test_a_missing_path_is_not_found(tmp_path):
    with pytest.raises(StoreNotFound, match="nowhere"):
        ChunkStore.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_directory_becomes_a_store_only_on_demand(tmp_path):
    with pytest.raises(StoreNotFound):
        ChunkStore.open(tmp_path)
    ChunkStore.create(tmp_path, IDENTITY).close()
    ChunkStore.open(tmp_path).close()


@pytest.mark.parametrize("way", [ChunkStore.create, ChunkStore.open_or_create])
def test_a_strangers_directory_is_left_alone(tmp_path, way):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(NotAStore, match=str(tmp_path)):
        way(tmp_path, IDENTITY)
    with pytest.raises(NotAStore):
        ChunkStore.open(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_another_programs_lmdb_is_left_alone(tmp_path):
    raw_environment(tmp_path).close()
    with pytest.raises(NotAStore):
        ChunkStore.open_or_create(tmp_path, IDENTITY)


def test_a_file_is_not_a_store(tmp_path):
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotAStore):
            ChunkStore.create(path, IDENTITY)
    with pytest.raises(NotAStore):
        ChunkStore.open(tmp_path / "file")


def test_a_store_is_not_created_twice(path):
    with pytest.raises(StoreExists):
        ChunkStore.create(path, OTHER_MODEL)
    with ChunkStore.open_or_create(path, IDENTITY) as store:
        assert store.stats().num_documents == 1


def test_a_creation_that_was_cut_short_is_taken_up_again(path):
    (path / MARKER_NAME).unlink()
    with pytest.raises(StoreNotFound):
        ChunkStore.open(path)
    ChunkStore.open_or_create(path, IDENTITY).close()
    for name in os.listdir(path):
        if name != LOCK_NAME:
            (path / name).unlink()
    ChunkStore.open_or_create(path, IDENTITY).close()


def test_only_its_owner_may_read_a_store(path):
    modes = {name: stat.S_IMODE((path / name).stat().st_mode) for name in os.listdir(path)}
    assert modes == dict.fromkeys([MARKER_NAME, LOCK_NAME, "data.mdb", "lock.mdb"], 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_another_model_is_refused_with_both_names(path):
    told = r"org/small-model \(464646464646\), not with org/large-model \(474747474747\)$"
    with pytest.raises(ModelMismatch, match=told):
        ChunkStore.open(path, identity=OTHER_MODEL)
    with pytest.raises(ModelMismatch, match=told):
        ChunkStore.open_or_create(path, OTHER_MODEL)


def test_another_recipe_is_refused_with_old_and_new_settings(path):
    with pytest.raises(RecipeMismatch, match=r"bits is 8 there and 4 here$"):
        ChunkStore.open(path, identity=OTHER_RECIPE)
    ChunkStore.open(path, identity=IDENTITY).close()


def test_a_later_format_is_refused(path):
    (path / MARKER_NAME).write_text(json.dumps({"format": "kvboost-store", "version": 2}))
    with pytest.raises(UnknownFormat, match=r"2$"):
        ChunkStore.open(path)


@pytest.mark.parametrize("marker", [b"", b"\xff\xfe", b"[]", b'{"format": "other", "version": 1}'])
def test_a_damaged_marker_is_told(path, marker):
    (path / MARKER_NAME).write_bytes(marker)
    with pytest.raises(StoreDamaged, match="marker"):
        ChunkStore.open(path)


@pytest.mark.parametrize("data", [b"", b"garbage", bytes(9000), b"\xde\xad" * 9000, os.urandom(20000)])
def test_a_garbage_data_file_is_told(path, data):
    (path / "data.mdb").write_bytes(data)
    for readonly in (False, True):
        with pytest.raises(StoreDamaged, match=str(path)):
            ChunkStore.open(path, readonly=readonly)


def test_a_lost_data_file_is_told(path):
    (path / "data.mdb").unlink()
    with pytest.raises(StoreDamaged, match=r"no data\.mdb"):
        ChunkStore.open(path)
    assert not (path / "data.mdb").exists()


def test_a_truncated_data_file_is_told_at_every_length(path):
    data = (path / "data.mdb").read_bytes()
    assert len(data) > 10 * 4096
    for length in [1, 100, 4095, 4096, 4097, 8191, *range(8192, len(data), 4096), len(data) - 1]:
        (path / "data.mdb").write_bytes(data[:length])
        with pytest.raises(StoreDamaged):
            ChunkStore.open(path)
    (path / "data.mdb").write_bytes(data)
    ChunkStore.open(path).close()


def test_a_flipped_meta_page_is_told_or_unharmful(path):
    """The older of the two meta pages is not used; only what LMDB relies on is checked."""
    data = bytearray((path / "data.mdb").read_bytes())
    data[16] ^= 1
    (path / "data.mdb").write_bytes(data)
    with pytest.raises(StoreDamaged, match="meta page at byte 0"):
        ChunkStore.open(path)


def test_a_store_without_identity_is_damaged(path):
    overwrite(path, "meta", IDENTITY_KEY, b"nonsense")
    with pytest.raises(StoreDamaged, match="checksum"):
        ChunkStore.open(path)
    overwrite(path, "meta", IDENTITY_KEY, None)
    with pytest.raises(StoreDamaged, match="which model"):
        ChunkStore.open(path)


def test_a_sound_file_shorter_than_its_last_page_opens(tmp_path):
    """LMDB does not write pages that one transaction takes and frees again, even the last ones."""
    path = tmp_path / "store"
    with ChunkStore.create(path, IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B]), [A, B])
    with raw_environment(path) as environment:
        usage = environment.open_db(b"usage", create=False)
        for step in range(3):
            with environment.begin(write=True) as transaction:
                transaction.put(b"kept", bytes(9000 * (3 - step)), db=usage)
                transaction.put(b"taken and freed", bytes(40_000), db=usage)
                transaction.delete(b"taken and freed", db=usage)
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    assert (path / "data.mdb").stat().st_size < needed
    with ChunkStore.open(path, readonly=True) as store, store.snapshot() as snapshot:
        assert snapshot.verify(A.key, A.header)
    assert (path / "data.mdb").stat().st_size < needed
    ChunkStore.open(path).close()
    assert (path / "data.mdb").stat().st_size == needed
    audit(path)


def test_one_path_is_one_environment(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with ChunkStore.open(path) as one, ChunkStore.open(tmp_path / "link") as other:
        other.put_meta("a", b"1")
        other.close()
        with one.snapshot() as snapshot:
            assert snapshot.meta("a") == b"1"
    ChunkStore.open(path).close()


def test_a_store_created_anew_at_the_same_path_is_another(path):
    with ChunkStore.open(path) as old:
        path.rename(path.with_name("moved"))
        with ChunkStore.create(path, IDENTITY) as new:
            assert new.stats().num_documents == 0
            assert old.identity == IDENTITY


def test_a_reader_writes_nothing(path):
    with ChunkStore.open(path, readonly=True) as store:
        for write in (
            lambda: store.put_document(make_entry("/b", [A]), []),
            lambda: store.remove_document("/a"),
            lambda: store.put_meta("a", b""),
            lambda: store.put_position(make_position(1)),
            lambda: store.replace_identity(OTHER_MODEL),
            lambda: store.writer_lock(),
        ):
            with pytest.raises(StoreReadonly, match=str(path)):
                write()
        assert store.stats().num_documents == 1


def test_a_writer_joins_a_reader_of_the_same_process(path):
    with ChunkStore.open(path, readonly=True) as reader:
        with reader.snapshot(), pytest.raises(SnapshotInUse):
            ChunkStore.open(path)
        with ChunkStore.open(path) as writer:
            writer.put_meta("a", b"1")
            with reader.snapshot() as snapshot:
                assert snapshot.meta("a") == b"1"
            with pytest.raises(StoreReadonly):
                reader.put_meta("a", b"2")


def test_a_store_is_not_closed_under_a_snapshot(path):
    store = ChunkStore.open(path)
    with store.snapshot() as snapshot:
        with pytest.raises(SnapshotInUse, match=r"1$"):
            store.close()
        assert snapshot.header(A.key) == A.header
    store.close()


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A closed store whose directories above let every user through, which those of pytest do not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(os.path.realpath(directory)) / "store"
        if not all(above.stat().st_mode & stat.S_IXOTH for above in path.parents):
            pytest.skip(f"other users may not pass through the directory for temporary files: {directory}")
        with ChunkStore.create(path, IDENTITY) as store:
            store.put_document(make_entry("/a", [A, B]), [A, B])
        yield path
        path.chmod(0o700)


UNPRIVILEGED = """
import os
from store import ChunkStore, StoreReadonly, StoreUnreadable
from store_contract import A
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
path, expected = sys.argv[1:]
if expected == "readable":
    with ChunkStore.open(path, readonly=True) as store, store.snapshot() as snapshot:
        assert snapshot.verify(A.key, snapshot.header(A.key))
    try:
        ChunkStore.open(path)
    except StoreReadonly as error:
        print("readable, and", error)
else:
    try:
        ChunkStore.open(path, readonly=True)
    except StoreUnreadable as error:
        print("denied:", error)
"""


@pytest.mark.parametrize(("data_mode", "directory_mode"), [(0o444, 0o555), (0o000, 0o555), (0o444, 0o000)])
def test_permissions_are_respected_and_told(public_path, data_mode, directory_mode):
    """Run as root, the other process first becomes a user without rights."""
    path = public_path
    for name in os.listdir(path):
        (path / name).chmod(data_mode if name == "data.mdb" else 0o444)
    path.chmod(directory_mode)
    readable = data_mode and directory_mode
    process = run_script(UNPRIVILEGED, path, "readable" if readable else "denied")
    output, _ = process.communicate()
    assert process.returncode == 0
    assert output.startswith("readable, and the store cannot be written" if readable else "denied: the store")


MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:1 master:2 - nfs4 server:/home rw
31 30 8:2 / /home/me/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/a rw - fuse.sshfs host: rw
33 22 8:3 / /mnt/a rw - ext4 /dev/sdc1 rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/srv/store", "ext4"), ("/", "ext4"), ("/home/me/store", "nfs4"), ("/home/me/local disk/store", "xfs"),
     ("/homework", "ext4"), ("/mnt/a/store", "ext4")],
)  # fmt: skip
def test_the_deepest_and_latest_mount_decides(path, kind):
    assert file_system_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "cifs", "fuse.sshfs", "9p", "ceph"])
def test_a_network_file_system_is_refused_with_its_name(tmp_path, kind):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"2 1 8:1 / / rw - ext4 /dev/sda1 rw\n3 2 0:9 / {tmp_path} rw - {kind} server:/x rw\n")
    with pytest.raises(NetworkFileSystem, match=f"{kind}$"):
        resolve_local(tmp_path / "store", mounts)
    assert resolve_local("/usr", mounts) == Path(os.path.realpath("/usr"))
    assert resolve_local(tmp_path, tmp_path / "no such file") == tmp_path.resolve()


def test_the_map_grows_only_without_snapshots(tmp_path):
    records = [make_record(seed, layer_bytes=100_000) for seed in range(0, 40, 4)]
    with ChunkStore.create(tmp_path / "store", IDENTITY, map_bytes=1 << 20) as store:
        entry = make_entry("/big", records)
        with store.snapshot(), pytest.raises(Exception, match="its map cannot grow while a snapshot is open"):
            store.put_document(entry, records)
        assert store.stats().num_documents == 0
        store.put_meta("small", b"still fits")
        store.put_document(entry, records)
        assert store.stats().num_chunks == len(records)
    assert audit(tmp_path / "store") == {"/big"}
