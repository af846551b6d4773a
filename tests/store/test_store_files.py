"""Data files that are garbage, lost or cut short are told, and never crash the process."""

import os
from pathlib import Path

import pytest
from store_contract import A, B
from store_samples import IDENTITY, audit, make_entry, overwrite, raw_environment

from store import ChunkStore, StoreDamaged
from store.names import IDENTITY_KEY


@pytest.fixture
def path(tmp_path) -> Path:
    """A closed store with one document."""
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B]), [A, B])
    return tmp_path / "store"


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


def test_a_flipped_byte_in_what_names_an_lmdb_file_is_told(path):
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
