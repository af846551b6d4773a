"""The attention that questions gave to chunks: summed, decayed, and gone with the chunk."""

from dataclasses import replace
from pathlib import Path

import pytest
from store_contract import ASK
from store_samples import IDENTITY, make_chain, make_entry, make_record, overwrite

from store import ChunkAttention, ChunkStore
from store.importance import HALF_LIFE_S

ONE, OTHER = make_record(1), make_record(2)


def filled(path: Path) -> ChunkStore:
    store = ChunkStore.create(path / "store", IDENTITY)
    store.put_document(make_entry("/notes/a", [ONE, OTHER]), [ONE, OTHER])
    return store


def attention(store: ChunkStore, key: bytes) -> ChunkAttention | None:
    with store.snapshot() as snapshot:
        return snapshot.attention(key)


def test_attention_is_summed_over_asks_and_halves_with_time(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.record_ask(replace(ASK, at=1000.0), {ONE.key: 0.5, OTHER.key: 0.125})
        store.record_ask(replace(ASK, at=1000.0 + HALF_LIFE_S), {ONE.key: 0.25})
        assert attention(store, ONE.key) == ChunkAttention(0.5, 1000.0 + HALF_LIFE_S, 2)
        assert attention(store, OTHER.key) == ChunkAttention(0.125, 1000.0, 1)
        assert attention(store, OTHER.key).mass_at(1000.0 + 3 * HALF_LIFE_S) == pytest.approx(0.125 / 8)


def test_a_clock_that_was_set_back_loses_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.record_ask(replace(ASK, at=9000.0), {ONE.key: 0.5})
        store.record_ask(replace(ASK, at=1000.0), {ONE.key: 0.25})
        assert attention(store, ONE.key) == ChunkAttention(0.75, 9000.0, 2)


def test_a_chunk_that_is_not_stored_is_left_out_and_one_that_goes_takes_its_attention(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        stranger = make_record(3)
        store.record_ask(ASK, {ONE.key: 0.5, stranger.key: 0.5})
        assert attention(store, stranger.key) is None
        store.put_document(make_entry("/notes/a", [OTHER]), [])
        assert attention(store, ONE.key) is None


def test_a_positional_record_that_goes_takes_no_attention_along(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        link = replace(make_chain(9)[0], key=ONE.key)  # keys of the two kinds are apart: the same bytes are no clash
        store.put_document(make_entry("/notes/b", [OTHER], [link]), [link])
        store.record_ask(ASK, {ONE.key: 0.5})
        assert store.remove_document("/notes/b")
        assert attention(store, ONE.key) == ChunkAttention(0.5, ASK.at, 1)


def test_a_damaged_value_is_as_none(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.record_ask(ASK, {ONE.key: 0.5})
    overwrite(tmp_path / "store", "usage", ONE.key, b"short")
    with ChunkStore.open(tmp_path / "store") as store:
        assert attention(store, ONE.key) is None
        store.record_ask(ASK, {ONE.key: 0.25})
        assert attention(store, ONE.key) == ChunkAttention(0.25, ASK.at, 1)
