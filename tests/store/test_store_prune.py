"""Pruning and forgetting: what nothing needs goes, whatever was damaged, and nothing else does."""

from dataclasses import replace

import pytest
from positions_contract import P, Q
from store_contract import A, B
from store_samples import IDENTITY, audit, make_chain, make_entry, make_position, make_record, overwrite, raw_items

from store import (
    AskEntry,
    ChunkStore,
    Extent,
    asked_names,
    compact_store,
    extent_of,
    forget_documents,
    prune_orphans,
    remove_documents,
    shed_records,
)
from store.names import document_key

C = make_record(77)
PREAMBLE = make_position(500)
ASK = AskEntry(1.0, "m", "none", 1, 1, 0, 0, 0, 1, 0.5, 1, 0, 0, None, ("/a", "/b"))


@pytest.fixture
def path(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.put_document(make_entry("/b", [B, C]), [C])
        store.put_position(PREAMBLE)
        store.record_ask(ASK, {A.key: 0.5, B.key: 0.5})
    return tmp_path / "store"


def extent(*records):
    return Extent(len(records), sum(record.header.total_bytes for record in records))


def test_the_extent_of_documents_is_what_they_alone_name(path):
    with ChunkStore.open(path) as store:
        assert extent_of(store, ["/a"]) == extent(A, P, Q)
        assert extent_of(store, {"/a", "/b", "/none"}) == extent(A, B, C, P, Q)
        remove_documents(store, ["/a", "/none"])
        assert extent_of(store, ["/b"]) == extent(B, C)
    assert audit(path) == {"/b"}
    assert raw_items(path, "usage").keys() == {B.key, C.key}


def test_many_documents_are_removed_in_several_transactions(path):
    with ChunkStore.open(path) as store:
        for number in range(150):
            store.put_document(make_entry(f"/many/{number}", [A]), [])
        remove_documents(store, (f"/many/{number}" for number in range(150)))
    assert audit(path) == {"/a", "/b"}


def test_a_document_that_shed_its_records_stays(path):
    with ChunkStore.open(path) as store:
        shed_records(store, ["/a", "/none"])
        with store.snapshot() as snapshot:
            assert snapshot.document("/a") == replace(make_entry("/a", [A, B], [P, Q]), chunk_keys=(), position_keys=())
    assert audit(path) == {"/a", "/b"}


def test_orphans_are_dropped_and_preambles_are_not(path):
    overwrite(path, "documents", document_key("/a"), b"?")
    overwrite(path, "usage", b"U" * 32, b"?")
    with ChunkStore.open(path) as store:
        before = raw_items_of(store)
        assert prune_orphans(store, dry_run=True) == (extent(A, P, Q), 2)
        assert raw_items_of(store) == before
        assert prune_orphans(store) == (extent(A, P, Q), 2)
        assert prune_orphans(store) == (Extent(), 0)
        store.remove_document("/a")
        with store.snapshot() as snapshot:
            assert snapshot.position_header(PREAMBLE.key) is not None


def raw_items_of(store):
    with store._environment.read() as txn:
        return {name: [(key, bytes(data)) for key, data in txn.scan(name)] for name in ("chunks", "refs", "usage")}


def test_a_forgotten_document_leaves_nothing_that_is_its_own(path):
    own, chain = make_record(901), make_chain(911, 921)
    with ChunkStore.open(path) as store:
        store.put_document(make_entry("/secret", [own, B], chain), [own, *chain])
        store.record_ask(replace(ASK, documents=("/secret", "/b")), {own.key: 0.5})
        told = forget_documents(store, ["/secret"], {"fillers": b"others"})
        assert (told.num_documents, told.num_records, told.num_kept_records, told.num_asks) == (1, 3, 1, 1)
        assert asked_names(store) == {"/a", "/b"}
        with store.snapshot() as snapshot:
            assert snapshot.meta("fillers") == b"others"
        assert store.stats().num_asks == 2
        compact_store(store)
    assert audit(path) == {"/a", "/b"}
    data = (path / "data.mdb").read_bytes()
    assert B.key in data
    traces = [part for record in (own, *chain) for part in (record.key, record.header.pack(), record.layers[0][:64])]
    assert [trace for trace in [b"/secret", *traces] if bytes(trace) in data] == []


def test_a_damaged_ask_could_name_anything_and_is_forgotten(path):
    overwrite(path, "asks", (0).to_bytes(8, "big"), b"/a?")
    with ChunkStore.open(path) as store:
        forget_documents(store, ["/a"], {})
    assert raw_items(path, "asks") == {}
