"""A store keeps to its budget, whatever is written to it, and drops what matters least."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from small_budgets import BUDGET, MB, faults, large, put, stored_numbers
from store_contract import ASK
from store_samples import IDENTITY, audit, make_chain, make_entry, make_position, make_record, overwrite

from store import (
    Budget,
    ChunkStore,
    MissingDocument,
    StoreFull,
    budget_of,
    compact_store,
    is_within_budget,
    pin_documents,
    pinned_documents,
    set_budget,
    unpin_documents,
)
from store import eviction as eviction_module
from store.budget import disk_bytes
from store.eviction import by_importance
from store.names import BUDGET_KEY, EVICTED_KEY, pin_key
from store.room import drop_records


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChunkStore]:
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        set_budget(store, Budget(BUDGET))
        yield store


def test_the_budget_holds_under_five_times_as_much(store: ChunkStore) -> None:
    """Documents of eight chunks, of two sizes in each; a question after each of them."""
    sizes, num_bytes = [], 0
    for number in range(120):
        records = [make_record(1000 * number + 10 * part, layer_bytes=26_000 + 4_000 * (part % 2)) for part in range(8)]
        num_bytes += store.put_document(make_entry(f"/{number}", records), records)
        store.record_ask(ASK, {records[0].key: 0.1})
        sizes.append(disk_bytes(store.path))
    assert num_bytes > 5 * BUDGET
    assert max(sizes) <= 1.02 * BUDGET
    stats = store.stats()
    assert stats.live_bytes > 0.8 * BUDGET, "and it is made use of"
    assert (stats.num_documents, stats.num_chunks + stats.num_evicted) == (120, 8 * 120)
    assert faults(store) == []
    store.close()
    assert len(audit(store.path)) == 120


def test_files_beside_the_data_file_count(store: ChunkStore) -> None:
    (store.path / "search.sqlite").write_bytes(bytes(6 * MB))
    for number in range(40):
        put(store, number)
    assert disk_bytes(store.path) <= 1.02 * BUDGET
    assert 0.5 * (BUDGET - 6 * MB) < store.stats().live_bytes < BUDGET - 6 * MB


def test_what_was_asked_about_stays_and_what_was_not_goes_oldest_first(store: ChunkStore) -> None:
    month = 30 * 86400.0
    for number in range(10):
        put(store, number, at=month * number)
    for number in (1, 3):
        store.record_ask(replace(ASK, at=10 * month), {large(number).key: 0.9})
    for number in range(10, 16):
        put(store, number, at=month * number)
    kept = stored_numbers(store, range(16))
    assert {1, 3, 15} <= kept
    assert not kept & {0, 2, 4}


def test_an_evicted_record_keeps_its_tokens_and_its_past_and_comes_back(store: ChunkStore) -> None:
    first = put(store, 0)
    store.record_ask(replace(ASK, at=0.0), {first.key: 0.01})
    for number in range(1, 20):
        put(store, number, at=1e9)
    with store.snapshot() as snapshot:
        assert snapshot.header(first.key) is None
        assert snapshot.is_evicted(first.key)
        assert snapshot.token_ids(first.key) == first.header.token_ids
        assert snapshot.missing([first.key]) == [first.key]
        assert snapshot.attention(first.key).num_asks == 1
    store.touch_document(replace(make_entry("/0", [first]), indexed_at=0.0))
    store.put_document(make_entry("/other", [first]), [])  # names it, and need not bring it
    assert stored_numbers(store, range(1)) == set()
    store.put_document(make_entry("/0", [first]), [first])
    with store.snapshot() as snapshot:
        assert snapshot.verify(first.key, snapshot.header(first.key))
        assert snapshot.attention(first.key).num_asks == 1
    assert store.remove_document("/0")
    assert store.remove_document("/other")
    assert first.key not in raw_items_open(store, "chunks")
    assert faults(store) == []


def raw_items_open(store: ChunkStore, database: str) -> dict[bytes, bytes]:
    with store._environment.read() as txn:
        return {key: bytes(data) for key, data in txn.scan(database)}


def test_pinned_documents_stay_whole_and_the_store_is_full_when_all_is_pinned(store: ChunkStore) -> None:
    numbers = range(12)
    for number in numbers:
        put(store, number)
    pin_documents(store, [f"/{number}" for number in numbers])
    assert pinned_documents(store) == sorted(f"/{number}" for number in numbers)
    with pytest.raises(StoreFull, match="nothing that is left may be dropped"):
        fill_with_pinned(store)
    assert stored_numbers(store, numbers) == set(numbers)
    assert disk_bytes(store.path) <= 1.02 * BUDGET
    assert unpin_documents(store, ["/0", "/1", "/2", "/none"]) == 3
    put(store, 200)
    assert stored_numbers(store, numbers) < set(numbers)
    assert faults(store) == []


def fill_with_pinned(store: ChunkStore) -> None:
    for number in range(100, 140):
        put(store, number)
        pin_documents(store, [f"/{number}"])


def test_a_pin_goes_with_its_document(store: ChunkStore) -> None:
    put(store, 1)
    pin_documents(store, ["/1"])
    with pytest.raises(MissingDocument, match="/2"):
        pin_documents(store, ["/1", "/2"])
    store.remove_document("/1")
    assert pinned_documents(store) == []
    assert [key for key in raw_items_open(store, "meta") if key.startswith(b"pin/")] == []


def test_exact_records_go_before_the_chunks_beside_them_and_preambles_stay(store: ChunkStore) -> None:
    preamble = make_position(500)
    store.put_position(preamble)
    for number in range(8):
        record = large(number)
        (link,) = make_chain(10 * number)
        link = replace(link, header=replace(record.header, positional=True), layers=record.layers)
        entry = replace(make_entry(f"/{number}", [record], [link]), indexed_at=0.0)
        store.put_document(entry, [record, link])
    with store.snapshot() as snapshot:
        assert snapshot.position_header(preamble.key) is not None
        exact = {n for n in range(8) if snapshot.position_header(make_chain(10 * n)[0].key)}
    assert exact < set(range(8))
    assert stored_numbers(store, range(8)) == set(range(8))
    assert faults(store) == []


def test_a_smaller_budget_drops_at_once_and_holds_after_compaction(store: ChunkStore) -> None:
    for number in range(12):
        put(store, number)
    set_budget(store, Budget(8 * MB))
    assert store.stats().live_bytes < 8 * MB
    assert not is_within_budget(store)
    compact_store(store)
    assert is_within_budget(store)
    assert budget_of(store) == Budget(8 * MB)
    set_budget(store, Budget())
    for number in range(20, 40):
        put(store, number)
    assert stored_numbers(store, range(20, 40)) == set(range(20, 40)), "no limit any more"


def test_free_space_is_left_on_the_disk(tmp_path: Path) -> None:
    """With more to be left than there is, the file cannot grow: what is new takes the place of what is old."""
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        for number in range(10):
            put(store, number)
        size = disk_bytes(store.path)
        set_budget(store, Budget(None, keep_free_bytes=1 << 60))
        for number in range(10, 30):
            put(store, number)
        assert disk_bytes(store.path) <= size
        assert stored_numbers(store, range(30)) >= {29}
        assert faults(store) == []


def test_a_document_that_is_larger_than_the_budget_is_refused_and_nothing_of_it_happens(store: ChunkStore) -> None:
    put(store, 1)
    records = [large(number) for number in range(100, 130)]
    with pytest.raises(StoreFull, match="16,000,000"):
        store.put_document(make_entry("/huge", records), records)
    with store.snapshot() as snapshot:
        assert list(snapshot.document_names()) == ["/1"]
    put(store, 2)
    assert faults(store) == []


def test_lost_and_damaged_records_are_no_obstacle(store: ChunkStore) -> None:
    """They free less than they are counted with; an index makes them anew, evicted ones it does not."""
    for number in range(10):
        put(store, number)
    path = store.path
    store.close()
    for number in (0, 1):
        overwrite(path, "chunks", large(number).key, None)
    overwrite(path, "chunks", large(2).key, b"?")
    with ChunkStore.open(path) as opened:
        drop_records(opened._environment, 1 << 40, by_importance)
        with opened.snapshot() as snapshot:
            keys = [large(number).key for number in range(10)]
            assert snapshot.lost(keys) == keys[:3]
            assert snapshot.missing(keys) == keys
        put(opened, 0)
        assert stored_numbers(opened, range(10)) == {0}
        assert faults(opened) == []


def test_a_damaged_budget_is_as_none_and_can_be_set_again(store: ChunkStore) -> None:
    put(store, 1)
    path = store.path
    pin_documents(store, ["/1"])
    store.close()
    for key in (BUDGET_KEY, EVICTED_KEY, pin_key("/1")):
        overwrite(path, "meta", key, b"?")
    with ChunkStore.open(path) as opened:
        assert (budget_of(opened), opened.stats().num_pinned) == (Budget(), 0)
        assert {fault.key for fault in faults(opened)} == {BUDGET_KEY, EVICTED_KEY, pin_key("/1")}
        put(opened, 2)
        set_budget(opened, Budget(BUDGET))
        for number in range(3, 20):
            put(opened, number)
        assert disk_bytes(path) <= 1.02 * BUDGET


def test_a_look_at_some_of_the_keys_is_enough(store: ChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a store of many more records than one look sees: range after range gives its least."""
    monkeypatch.setattr(eviction_module, "NUM_LOOKED", 4)
    for number in range(60):
        put(store, number, at=float(number))
    assert disk_bytes(store.path) <= 1.02 * BUDGET
    assert store.stats().live_bytes > 0.5 * BUDGET
    assert faults(store) == []


@pytest.mark.parametrize(("limit", "keep_free"), [(999_999, 0), (0, 0), (2 * MB, -1)])
def test_a_budget_that_no_store_can_keep_is_refused(limit: int, keep_free: int) -> None:
    with pytest.raises(ValueError, match="not"):
        Budget(limit, keep_free)
