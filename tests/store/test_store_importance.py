"""The use of records and the attention that questions gave them: summed, decayed, and gone with the record."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from store_contract import ASK
from store_samples import IDENTITY, make_chain, make_entry, make_record, overwrite

from store import ChunkAttention, ChunkStore
from store.importance import HALF_LIFE_S, log_importance
from store.sealed import append_checksum

ONE, OTHER = make_record(1), make_record(2)


def filled(path: Path) -> ChunkStore:
    store = ChunkStore.create(path / "store", IDENTITY)
    store.put_document(replace(make_entry("/notes/a", [ONE, OTHER]), indexed_at=1000.0), [ONE, OTHER])
    return store


def attention(store: ChunkStore, key: bytes) -> ChunkAttention | None:
    with store.snapshot() as snapshot:
        return snapshot.attention(key)


def test_attention_is_summed_over_asks_and_halves_with_time(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.record_ask(replace(ASK, at=1000.0), {ONE.key: 0.5, OTHER.key: 0.125})
        store.record_ask(replace(ASK, at=1000.0 + HALF_LIFE_S), {ONE.key: 0.25})
        assert attention(store, ONE.key) == ChunkAttention(0.5, 1000.0 + HALF_LIFE_S, 2, uses=2.0)
        assert attention(store, OTHER.key) == ChunkAttention(0.125, 1000.0, 1, uses=2.0)
        assert attention(store, OTHER.key).mass_at(1000.0 + 3 * HALF_LIFE_S) == pytest.approx(0.125 / 8)


def test_a_clock_that_was_set_back_loses_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.record_ask(replace(ASK, at=9000.0), {ONE.key: 0.5})
        store.record_ask(replace(ASK, at=1000.0), {ONE.key: 0.25})
        assert attention(store, ONE.key) == ChunkAttention(0.75, 9000.0, 2, pytest.approx(3.0, abs=0.01))


def test_what_is_written_counts_as_used_once(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        assert attention(store, ONE.key) == ChunkAttention(0.0, 1000.0, 0, uses=1.0)
        store.put_document(replace(make_entry("/notes/b", [ONE]), indexed_at=9000.0), [ONE])
        assert attention(store, ONE.key) == ChunkAttention(0.0, 1000.0, 0, uses=1.0)


def test_a_chunk_that_no_document_has_is_left_out_and_one_that_goes_takes_its_attention(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        stranger = make_record(3)
        store.record_ask(ASK, {ONE.key: 0.5, stranger.key: 0.5})
        assert attention(store, stranger.key) is None
        store.put_document(make_entry("/notes/a", [OTHER]), [])
        assert attention(store, ONE.key) is None


def test_a_positional_record_has_a_use_of_its_own_and_takes_no_other_along(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        (link,) = make_chain(9)
        store.put_document(replace(make_entry("/notes/b", [ONE], [link]), indexed_at=1000.0), [link])
        store.record_ask(replace(ASK, at=1000.0), {ONE.key: 0.5, link.key: 0.25})
        assert attention(store, link.key) == ChunkAttention(0.25, 1000.0, 1, uses=2.0)
        assert store.remove_document("/notes/b")
        assert attention(store, link.key) is None
        assert attention(store, ONE.key) == ChunkAttention(0.5, 1000.0, 1, uses=2.0)


def test_values_of_earlier_versions_are_read(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        pass
    old = struct.pack("<ddI", 0.5, 1000.0, 3)
    overwrite(tmp_path / "store", "usage", ONE.key, append_checksum(old))
    overwrite(tmp_path / "store", "usage", OTHER.key, old)
    with ChunkStore.open(tmp_path / "store") as store:
        assert attention(store, ONE.key) == attention(store, OTHER.key) == ChunkAttention(0.5, 1000.0, 3, uses=3.0)


def test_importance_weighs_attention_use_age_cost_and_size() -> None:
    """As the formula is written in the docs, at a moment that is named."""
    now = 1.7e9

    def naive(known: ChunkAttention, cost: float, num_bytes: int) -> float:
        return (known.mass + 0.3 * known.uses) * 0.5 ** ((now - known.at) / (30 * 86400)) * cost / num_bytes

    few = [
        (ChunkAttention(mass, now - age_s, 1, uses), cost, num_bytes)
        for mass in (0.0, 0.9)
        for age_s in (0.0, 90 * 86400.0)
        for uses in (1.0, 30.0)
        for cost, num_bytes in ((512.0, 5_000_000), (300.0, 9_000_000))
    ]
    order = sorted(few, key=lambda one: log_importance(*one))
    assert order == sorted(few, key=lambda one: naive(*one))
    assert log_importance(None, 512.0, 1) < log_importance(*order[0])


def test_a_damaged_value_is_as_none(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.record_ask(ASK, {ONE.key: 0.5})
    overwrite(tmp_path / "store", "usage", ONE.key, b"short")
    with ChunkStore.open(tmp_path / "store") as store:
        assert attention(store, ONE.key) is None
        store.record_ask(ASK, {ONE.key: 0.25})
        assert attention(store, ONE.key) == ChunkAttention(0.25, ASK.at, 1, uses=1.0)
