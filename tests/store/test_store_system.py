"""What the system does not grant: permissions, local disks, address space, room on the disk."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_contract import A, B
from store_samples import IDENTITY, audit, make_entry, make_record, run_script

from store import ChunkStore, NetworkFileSystem, StoreFull
from store.filesystem import file_system_of, resolve_local


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
        with store.snapshot(), pytest.raises(StoreFull, match="its map cannot grow while a snapshot is open"):
            store.put_document(entry, records)
        assert store.stats().num_documents == 0
        store.put_meta("small", b"still fits")
        store.put_document(entry, records)
        assert store.stats().num_chunks == len(records)
    assert audit(tmp_path / "store") == {"/big"}


FILLER = """
import resource
from store import ChunkStore, StoreFull
from store_samples import make_entry, make_record
with ChunkStore.open(sys.argv[1]) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
    records = [make_record(4 * seed, layer_bytes=100_000) for seed in range(20)]
    for _ in range(3):
        try:
            store.put_document(make_entry("/big", records), records)
        except StoreFull as error:
            print(error)
    assert store.remove_document("/small")
    store.put_document(make_entry("/after", []), [])
"""


def test_a_full_disk_is_told_and_removing_still_works(tmp_path):
    """A limit on the size of files stands for the full disk."""
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/small", [A, B]), [A, B])
    filler = run_script(FILLER, tmp_path / "store")
    output, _ = filler.communicate()
    assert filler.returncode == 0
    assert output == 3 * f"the store {tmp_path / 'store'} is full: no space left on its disk\n"
    assert audit(tmp_path / "store") == {"/after"}


NARROW = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
from store import ChunkStore
from store_samples import IDENTITY
with ChunkStore.create(sys.argv[1], IDENTITY) as store:
    print(store.stats().num_chunks)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits address space")
def test_a_system_with_little_address_space_gets_a_smaller_map(tmp_path):
    process = run_script(NARROW, tmp_path / "store")
    output, _ = process.communicate()
    assert (process.returncode, output) == (0, "0\n")


CRAMPED = """
import resource
from store import ChunkStore, StoreFull
from store_samples import IDENTITY, make_entry, make_record
records = [make_record(4 * seed, layer_bytes=400_000) for seed in range(40)]
with ChunkStore.create(sys.argv[1], IDENTITY, map_bytes=1 << 20) as store:
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 80_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        store.put_document(make_entry("/big", records), records)
    except StoreFull as error:
        print(error)
    store.put_document(make_entry("/small", records[:2]), records[:2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits address space")
def test_growth_beyond_the_address_space_is_refused_and_harms_nothing(tmp_path):
    process = run_script(CRAMPED, tmp_path / "store")
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "the system refuses a map of" in output
    assert audit(tmp_path / "store") == {"/small"}
