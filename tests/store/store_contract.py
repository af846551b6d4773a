"""What any chunk store must do. A subclass names the way to a new store; see `test_store_contract`."""

from dataclasses import replace
from pickle import PickleBuffer

import pytest
from contract_base import StoreContract
from store_samples import (
    IDENTITY,
    OTHER_MODEL,
    OTHER_RECIPE,
    make_entry,
    make_position,
    make_record,
)

from store import (
    AskEntry,
    ChunkRecord,
    ChunkStore,
    ForeignRecord,
    MissingChunk,
    MissingDocument,
    ModelMismatch,
    RecipeMismatch,
    SnapshotInUse,
    StoreClosed,
)

A, B, C, D = (make_record(seed) for seed in (10, 20, 30, 40))
ASK = AskEntry(
    at=1.5, model="m", strategy="auto", prompt_tokens=9, exact=1, reused=2, repaired=3, prefilled=4,
    generated=5, ttft_s=0.25, documents_exact=1, documents_content=2, documents_miss=3, speedup=None,
    documents=("/a",),
)  # fmt: skip


def stored(store: ChunkStore, *records: ChunkRecord) -> list[bool]:
    keys = [record.key for record in records]
    with store.snapshot() as snapshot:
        missing = {*snapshot.missing(keys)} & {*snapshot.missing_positions(keys)}
    return [key not in missing for key in keys]


class ChunkStoreContract(StoreContract):
    def test_a_new_store_is_empty_and_knows_its_model(self, store):
        assert store.identity == IDENTITY
        with store.snapshot() as snapshot:
            assert list(snapshot.documents()) == []
            assert snapshot.document("/a") is None
            assert snapshot.header(A.key) is None
            assert snapshot.missing([A.key, B.key, A.key]) == [A.key, B.key]
            assert snapshot.damaged == []

    def test_a_document_comes_back_with_its_chunks(self, store):
        entry = make_entry("/a", [A, B])
        num_bytes = store.put_document(entry, [A, B])
        assert num_bytes == A.header.total_bytes + B.header.total_bytes + len(entry.to_bytes())
        with store.snapshot() as snapshot:
            assert snapshot.document("/a") == entry
            for record in (A, B):
                header = snapshot.header(record.key)
                assert header == record.header
                assert snapshot.verify(record.key, header)
                for number, layer in enumerate(record.layers):
                    assert bytes(snapshot.layer(record.key, number, header)) == layer

    @pytest.mark.parametrize("name", ["stdin", "/n\udcff\udc80/\u00e9", "/long/" * 400, "\U0001f600"])
    def test_any_name_will_do(self, store, name):
        store.put_document(make_entry(name, [A]), [A])
        with store.snapshot() as snapshot:
            assert list(snapshot.document_names()) == [name]
            assert snapshot.document(name).name == name
        assert store.remove_document(name)

    def test_documents_come_in_the_order_of_their_names(self, store):
        for name in ("/c", "/a", "/b"):
            store.put_document(make_entry(name, [A]), [A])
        with store.snapshot() as snapshot:
            assert list(snapshot.document_names()) == ["/a", "/b", "/c"]

    def test_a_shared_chunk_stays_until_its_last_document_goes(self, store):
        store.put_document(make_entry("/a", [A, B]), [A, B])
        store.put_document(make_entry("/b", [B, C]), [B, C])
        assert store.remove_document("/a")
        assert stored(store, A, B, C) == [False, True, True]
        assert store.remove_document("/b")
        assert stored(store, A, B, C) == [False, False, False]
        assert not store.remove_document("/b")

    def test_an_edit_drops_only_what_nobody_names_any_more(self, store):
        store.put_document(make_entry("/a", [A, B, C]), [A, B, C])
        store.put_document(make_entry("/b", [C]), [])
        store.put_document(make_entry("/a", [A, D]), [D])
        assert stored(store, A, B, C, D) == [True, False, True, True]

    def test_a_chunk_that_a_document_repeats_counts_once(self, store):
        store.put_document(make_entry("/a", [A, A, B]), [A, B])
        store.put_document(make_entry("/a", [A, B, B]), [])
        store.put_document(make_entry("/a", [B]), [])
        assert stored(store, A, B) == [False, True]

    def test_what_is_stored_is_not_written_again(self, store):
        entry = make_entry("/b", [A])
        store.put_document(make_entry("/a", [A]), [A])
        assert store.put_document(entry, [A]) == len(entry.to_bytes())

    def test_a_missing_chunk_refuses_the_whole_document(self, store):
        store.put_document(make_entry("/a", [A]), [A])
        with pytest.raises(MissingChunk, match=C.key.hex()):
            store.put_document(make_entry("/a", [B, C]), [B])
        assert stored(store, A, B) == [True, False]
        with store.snapshot() as snapshot:
            assert snapshot.document("/a") == make_entry("/a", [A])

    def test_a_touch_changes_facts_but_neither_chunks_nor_their_order_and_repetition(self, store):
        store.put_document(make_entry("/a", [A, B, A]), [A, B])
        store.touch_document(make_entry("/a", [A, B, A], mtime_ns=99))
        with store.snapshot() as snapshot:
            assert snapshot.document("/a").mtime_ns == 99
        for other in ([A], [B, A, A], [A, B]):
            with pytest.raises(MissingDocument, match="/a"):
                store.touch_document(make_entry("/a", other))
        with pytest.raises(MissingDocument, match="/z"):
            store.touch_document(make_entry("/z", [A]))

    def test_positional_records_are_apart_from_content_records(self, store):
        record = make_position(10)
        assert store.put_position(record) == record.header.total_bytes
        assert store.put_position(record) == 0
        with store.snapshot() as snapshot:
            assert snapshot.header(record.key) is None
            header = snapshot.position_header(record.key)
            assert header == record.header
            assert bytes(snapshot.layer(record.key, 1, header)) == record.layers[1]
            assert snapshot.verify(record.key, header)

    def test_records_of_another_model_or_recipe_are_refused(self, store):
        for identity in (OTHER_MODEL, OTHER_RECIPE):
            record = make_record(1, identity=identity)
            with pytest.raises(ForeignRecord, match=record.key.hex()):
                store.put_document(make_entry("/a", [record]), [record])
        with pytest.raises(ForeignRecord):
            store.put_position(make_position(1, identity=OTHER_MODEL))
        assert store.stats().num_documents == 0

    def test_metadata_is_kept_by_name(self, store):
        store.put_meta("fidelity", b"one")
        store.put_meta("fidelity", b"two")
        store.put_meta("identity", b"not the store's own")
        with store.snapshot() as snapshot:
            assert (snapshot.meta("fidelity"), snapshot.meta("filler")) == (b"two", None)
        assert store.identity == IDENTITY

    def test_a_snapshot_does_not_see_later_writes(self, store):
        store.put_document(make_entry("/a", [A]), [A])
        with store.snapshot() as snapshot:
            header = snapshot.header(A.key)
            store.remove_document("/a")
            store.put_document(make_entry("/b", [B]), [B])
            assert list(snapshot.document_names()) == ["/a"]
            assert bytes(snapshot.layer(A.key, 0, header)) == A.layers[0]
        assert stored(store, A, B) == [False, True]

    def test_views_end_with_their_snapshot(self, store):
        store.put_document(make_entry("/a", [A]), [A])
        with store.snapshot() as snapshot:
            view = snapshot.layer(A.key, 0, A.header)
        with pytest.raises(ValueError, match="released"):
            bytes(view)
        with pytest.raises(StoreClosed):
            snapshot.header(A.key)

    def test_a_buffer_that_outlives_its_snapshot_is_an_error(self, store):
        store.put_document(make_entry("/a", [A]), [A])
        with pytest.raises(SnapshotInUse, match="1"), store.snapshot() as snapshot:
            held = PickleBuffer(snapshot.layer(A.key, 0, A.header))
        held.release()

    def test_an_error_within_a_snapshot_is_the_one_that_is_told(self, store):
        store.put_document(make_entry("/a", [A]), [A])
        views, held = [], []

        def fail():
            with store.snapshot() as snapshot:
                views.append(snapshot.layer(A.key, 0, A.header))
                held.append(PickleBuffer(snapshot.layer(A.key, 1, A.header)))
                raise KeyError("the first error")

        with pytest.raises(KeyError, match="the first error"):
            fail()
        with pytest.raises(ValueError, match="released"):
            bytes(views[0])

    def test_the_model_is_named_when_it_is_another(self, store):
        with pytest.raises(ModelMismatch, match=r"org/small-model \(.*org/large-model \("):
            store.require_identity(OTHER_MODEL)
        with pytest.raises(RecipeMismatch, match="bits is 8 there and 4 here") as caught:
            store.require_identity(OTHER_RECIPE)
        assert caught.value.differences == (("bits", 8, 4),)
        store.require_identity(replace(IDENTITY, model="the same under another name"))

    def test_a_replaced_identity_keeps_documents_and_drops_positions(self, store):
        store.put_document(make_entry("/a", [A]), [A])
        store.put_position(make_position(10))
        store.replace_identity(OTHER_RECIPE)
        assert store.identity == OTHER_RECIPE
        with store.snapshot() as snapshot:
            assert snapshot.position_header(make_position(10).key) is None
            assert list(snapshot.document_names()) == ["/a"]
        renewed = make_record(10, identity=OTHER_RECIPE)
        store.put_document(make_entry("/a", [renewed]), [renewed])
        assert stored(store, A, renewed) == [False, True]

    def test_stats_count_what_is_there(self, store):
        store.put_document(make_entry("/a", [A, B]), [A, B])
        store.put_document(make_entry("/b", [B]), [])
        stats = store.stats()
        assert (stats.num_documents, stats.num_chunks, stats.num_tokens) == (2, 2, 8)
        assert stats.bytes_per_token == (A.header.total_bytes + B.header.total_bytes) / 8
        assert 0 < stats.live_bytes <= stats.file_bytes
        assert stats.identity == IDENTITY
        assert (stats.num_asks, stats.ttft_p50_s, stats.ttft_p95_s) == (0, None, None)

    def test_asks_are_summed_and_ranked(self, store):
        for number in range(1, 21):
            store.record_ask(replace(ASK, ttft_s=float(number)))
        stats = store.stats()
        assert (stats.num_asks, stats.ttft_p50_s, stats.ttft_p95_s) == (20, 10.0, 19.0)
        assert (stats.documents_exact, stats.documents_content, stats.documents_miss) == (20, 40, 60)

    def test_a_closed_store_says_so(self, new_store):
        store = new_store(IDENTITY)
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            store.put_meta("a", b"")
        with pytest.raises(StoreClosed), store.snapshot():
            pass
