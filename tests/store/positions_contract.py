"""What any chunk store must do with the positional records of documents; see `store_contract`."""

import pytest
from contract_base import StoreContract
from store_contract import A, B, C, stored
from store_samples import IDENTITY, OTHER_RECIPE, make_chain, make_entry, make_position, make_record

from store import ForeignRecord, MissingChunk, MissingDocument

P, Q, R = make_chain(10, 20, 30)
OTHER_END = make_chain(10, 50)[1]


class PositionsContract(StoreContract):
    def test_a_document_comes_back_with_its_positions(self, store):
        entry = make_entry("/a", [A, B], [P, Q])
        num_bytes = store.put_document(entry, [A, Q, B, P])
        assert num_bytes == sum(one.header.total_bytes for one in (A, B, P, Q)) + len(entry.to_bytes())
        with store.snapshot() as snapshot:
            assert snapshot.document("/a") == entry
            assert snapshot.header(P.key) is None
            assert snapshot.missing_positions([P.key, R.key, A.key, R.key]) == [R.key, A.key]
            for record in (P, Q):
                header = snapshot.position_header(record.key)
                assert header == record.header
                assert snapshot.verify(record.key, header)
                assert all(bytes(snapshot.layer(record.key, n, header)) == record.layers[n] for n in range(3))
            assert snapshot.damaged == []

    def test_an_edit_drops_the_positions_behind_it(self, store):
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.put_document(make_entry("/a", [A, C], [P, OTHER_END]), [C, OTHER_END])
        assert stored(store, A, B, C) == [True, False, True]
        assert stored(store, P, Q, OTHER_END) == [True, False, True]

    def test_positions_that_two_documents_share_stay_until_the_last_one_goes(self, store):
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.put_document(make_entry("/b", [A, B], [P, Q]), [])
        store.put_document(make_entry("/a", [A]), [])
        assert stored(store, P, Q) == [True, True]
        assert store.remove_document("/b")
        assert stored(store, A, B, P, Q) == [True, False, False, False]

    def test_a_removed_document_takes_its_positions_along(self, store):
        preamble = make_position(10)
        store.put_position(preamble)
        store.put_document(make_entry("/a", [A], [P]), [A, P])
        store.remove_document("/a")
        assert stored(store, A, P, preamble) == [False, False, True]

    def test_a_position_that_is_nowhere_refuses_the_whole_document(self, store):
        store.put_document(make_entry("/a", [A], [P]), [A, P])
        with pytest.raises(MissingChunk, match=Q.key.hex()) as caught:
            store.put_document(make_entry("/a", [B, C], [P, Q]), [B, C])
        assert caught.value.key == Q.key
        assert stored(store, A, B, C, P) == [True, False, False, True]
        with pytest.raises(MissingChunk):
            store.put_document(make_entry("/b", [P]), [])

    def test_positions_that_are_stored_are_only_counted(self, store):
        entry = make_entry("/b", [A], [P])
        store.put_document(make_entry("/a", [A], [P]), [A, P])
        assert store.put_document(entry, [A, P]) == len(entry.to_bytes())

    def test_a_position_may_be_stored_before_a_document_names_it(self, store):
        store.put_position(P)
        store.put_document(make_entry("/a", [A], [P]), [A])
        store.remove_document("/a")
        assert stored(store, P) == [False]

    def test_a_touch_changes_no_positions(self, store):
        store.put_document(make_entry("/a", [A], [P]), [A, P])
        store.touch_document(make_entry("/a", [A], [P], mtime_ns=99))
        with store.snapshot() as snapshot:
            assert snapshot.document("/a").mtime_ns == 99
        with pytest.raises(MissingDocument, match="/a"):
            store.touch_document(make_entry("/a", [A]))

    def test_unrotated_positions_of_another_recipe_are_refused(self, store):
        (foreign,) = make_chain(10, identity=OTHER_RECIPE)
        with pytest.raises(ForeignRecord, match=foreign.key.hex()):
            store.put_document(make_entry("/a", [A], [foreign]), [A, foreign])
        with pytest.raises(ForeignRecord):
            store.put_position(foreign)

    def test_a_content_record_is_no_position(self, store):
        with pytest.raises(AssertionError, match="belongs to a document"):
            store.put_position(make_record(1))

    def test_a_replaced_identity_drops_the_positions_of_every_document(self, store):
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.replace_identity(OTHER_RECIPE)
        with store.snapshot() as snapshot:
            entry = snapshot.document("/a")
            assert entry == make_entry("/a", [A, B])
        assert stored(store, A, P, Q) == [True, False, False]

    def test_positions_are_counted_right_after_the_identity_came_back(self, store):
        store.put_document(make_entry("/a", [A], [P]), [A, P])
        store.replace_identity(OTHER_RECIPE)
        store.replace_identity(IDENTITY)
        for name in ("/b", "/a"):
            store.put_document(make_entry(name, [A], [P]), [P])
        store.remove_document("/b")
        assert stored(store, A, P) == [True, True]

    def test_stats_count_positions_among_bytes_alone(self, store):
        store.put_document(make_entry("/a", [A, B]), [A, B])
        without = store.stats()
        big = make_chain(*range(40, 90))
        store.put_document(make_entry("/a", [A, B], big), big)
        stats = store.stats()
        assert (stats.num_chunks, stats.num_tokens) == (2, 8)
        assert stats.bytes_per_token == without.bytes_per_token
        assert stats.live_bytes >= without.live_bytes + sum(record.header.total_bytes for record in big)

    def test_it_is_told_whether_several_documents_share_a_record(self, store):
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.put_document(make_entry("/b", [A, C], [P]), [C])
        with store.snapshot() as snapshot:
            shared = {key for key in (A.key, B.key, C.key, P.key, Q.key) if snapshot.is_shared(key)}
        assert shared == {A.key, P.key}

    def test_preambles_are_told_from_the_positions_of_documents(self, store):
        preambles = [make_position(seed) for seed in (10, 20)]
        for record in preambles:
            store.put_position(record)
        store.put_document(make_entry("/a", [A], [P, Q]), [A, P, Q])
        with store.snapshot() as snapshot:
            assert set(snapshot.preamble_keys()) == {record.key for record in preambles}
