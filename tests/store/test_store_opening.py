"""What may be opened, what is refused, and in which words."""

import json
import os
import stat
from pathlib import Path

import pytest
from store_contract import A, B
from store_samples import (
    IDENTITY,
    OTHER_MODEL,
    OTHER_RECIPE,
    make_entry,
    make_position,
    raw_environment,
)

from store import (
    ChunkStore,
    ModelMismatch,
    NotAStore,
    RecipeMismatch,
    SnapshotInUse,
    StoreDamaged,
    StoreExists,
    StoreNotFound,
    StoreReadonly,
    UnknownFormat,
)
from store.marker import FORMAT_VERSION, LOCK_NAME, MARKER_NAME


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


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_an_earlier_or_later_format_is_refused(path, version):
    (path / MARKER_NAME).write_text(json.dumps({"format": "kvboost-store", "version": version}))
    with pytest.raises(UnknownFormat, match=rf": {version}$"):
        ChunkStore.open(path)


@pytest.mark.parametrize("marker", [b"", b"\xff\xfe", b"[]", b'{"format": "other", "version": 1}'])
def test_a_damaged_marker_is_told(path, marker):
    (path / MARKER_NAME).write_bytes(marker)
    with pytest.raises(StoreDamaged, match="marker"):
        ChunkStore.open(path)


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
