"""A damaged record is a miss, is reported, and can be rebuilt; it is never served."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from positions_contract import P, Q
from store_contract import A, B
from store_samples import IDENTITY, audit, flip_byte, make_entry, make_position, overwrite, raw_items

from store import ChunkStore, DamagedRecord, MissingChunk, StoreDamaged
from store.names import document_key
from store.snapshot import layer_key


@pytest.fixture
def path(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B]), [A, B])
        store.put_position(make_position(10))
    return tmp_path / "store"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layer=st.integers(0, 2), position=st.integers(0, 599), length=st.sampled_from([None, 0, 599, 601]))
def test_a_changed_lost_or_longer_layer_is_never_served(path, layer, position, length):
    sound = A.layers[layer]
    bad = flip_byte(sound, position) if length is None else (sound + b"\0")[:length]
    overwrite(path, "chunks", layer_key(A.key, layer), bad)
    with ChunkStore.open(path) as store, store.snapshot() as snapshot:
        assert not snapshot.verify(A.key, A.header)
        with pytest.raises(DamagedRecord, match=f"layer {layer}"):
            snapshot.layer(A.key, layer, A.header)
        assert snapshot.damaged == [A.key, A.key]
        assert snapshot.verify(B.key, B.header)
    overwrite(path, "chunks", layer_key(A.key, layer), sound)


def test_an_absent_layer_is_never_served(path):
    overwrite(path, "chunks", layer_key(A.key, 1), None)
    with ChunkStore.open(path) as store, store.snapshot() as snapshot, pytest.raises(DamagedRecord):
        snapshot.layer(A.key, 1, A.header)


def test_a_positional_layer_is_checked_too(path):
    record = make_position(10)
    overwrite(path, "positions", layer_key(record.key, 0), flip_byte(bytes(record.layers[0]), 7))
    with ChunkStore.open(path) as store:
        with store.snapshot() as snapshot, pytest.raises(DamagedRecord):
            snapshot.layer(record.key, 0, record.header)
        assert store.put_position(record) == record.header.total_bytes
        with store.snapshot() as snapshot:
            assert snapshot.verify(record.key, record.header)


@pytest.mark.parametrize("position", [0, 5, 12, 14, 17, 25, 140])
def test_a_damaged_header_is_a_miss(path, position):
    overwrite(path, "chunks", A.key, flip_byte(A.header.pack(), position))
    with ChunkStore.open(path) as store:
        with store.snapshot() as snapshot:
            assert snapshot.header(A.key) is None
            assert snapshot.damaged == [A.key]
            assert snapshot.missing([A.key, B.key]) == [A.key]
        with pytest.raises(MissingChunk):
            store.put_document(make_entry("/b", [A]), [])


def test_a_damaged_chunk_is_rewritten_when_it_is_given_again(path):
    overwrite(path, "chunks", layer_key(A.key, 2), b"")
    with ChunkStore.open(path) as store:
        entry = make_entry("/a", [A, B])
        assert store.put_document(entry, [A, B]) == A.header.total_bytes + len(entry.to_bytes())
        with store.snapshot() as snapshot:
            assert snapshot.verify(A.key, A.header)
    audit(path)


def test_a_damaged_position_of_a_document_is_a_miss_and_is_rewritten(path):
    entry = make_entry("/a", [A, B], [P, Q])
    with ChunkStore.open(path) as store:
        store.put_document(entry, [P, Q])
    overwrite(path, "positions", layer_key(P.key, 1), flip_byte(bytes(P.layers[1]), 9))
    overwrite(path, "positions", Q.key, flip_byte(Q.header.pack(), 30))
    with ChunkStore.open(path) as store:
        with store.snapshot() as snapshot:
            assert snapshot.missing_positions([P.key, Q.key]) == [Q.key]
            assert not snapshot.verify(P.key, P.header)
            assert snapshot.damaged == [Q.key, P.key]
        with pytest.raises(MissingChunk, match=Q.key.hex()):
            store.put_document(entry, [P])
        store.put_document(entry, [P, Q])
        with store.snapshot() as snapshot:
            assert all(snapshot.verify(record.key, record.header) for record in (A, B, P, Q))
    audit(path)


def test_a_damaged_document_is_a_miss_and_can_be_replaced(path):
    key = document_key("/a")
    overwrite(path, "documents", key, flip_byte(raw_items(path, "documents")[key], 30))
    with ChunkStore.open(path) as store:
        store.put_document(make_entry("/b", [B]), [])
        with store.snapshot() as snapshot:
            assert snapshot.document("/a") is None
            assert list(snapshot.document_names()) == ["/b"]
            assert snapshot.damaged == [key, key]
        store.put_document(make_entry("/a", [A]), [])
        with store.snapshot() as snapshot:
            assert list(snapshot.document_names()) == ["/a", "/b"]
            assert snapshot.verify(A.key, A.header)


def test_a_damaged_document_can_be_removed(path):
    key = document_key("/a")
    overwrite(path, "documents", key, b"?")
    with ChunkStore.open(path) as store:
        assert store.remove_document("/a")
        assert store.stats().num_documents == 0


def test_a_damaged_ask_costs_only_its_own_numbers(path):
    overwrite(path, "asks", (0).to_bytes(8, "big"), b"?")
    with ChunkStore.open(path) as store:
        assert store.stats().num_asks == 0


def test_a_damaged_reference_count_is_told(path):
    overwrite(path, "refs", A.key, b"?")
    with ChunkStore.open(path) as store, pytest.raises(DamagedRecord, match="reference count"):
        store.remove_document("/a")


def test_damage_in_the_pages_of_the_tree_is_told(path):
    """Every page behind the meta pages is set to zero."""
    data = (path / "data.mdb").read_bytes()
    (path / "data.mdb").write_bytes(data[:8192] + bytes(len(data) - 8192))
    with pytest.raises(StoreDamaged):
        ChunkStore.open(path)
