"""What each document holds and how it was used, against sums over what was put."""

from dataclasses import replace

import pytest
from store_contract import ASK
from store_samples import IDENTITY, flip_byte, make_chain, make_entry, make_record, overwrite, raw_items

from store import ChunkStore, pin_documents, read_holdings
from store.holdings import NUM_DOCUMENTS_PER_READ
from store.importance import HALF_LIFE_S

ONE, OTHER, THIRD = make_record(1), make_record(2), make_record(3)
START_S = 1000.0


@pytest.fixture
def store(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        yield store


def put(store, name, records, chain=()):
    entry = replace(make_entry(name, records, chain), indexed_at=START_S)
    store.put_document(entry, [*records, *chain])


def test_a_document_holds_its_records_exact_ones_too_and_shared_ones_count_for_each(store):
    chain = make_chain(5, 6)
    put(store, "/notes/a", [ONE, OTHER], chain)
    put(store, "/notes/b", [OTHER, THIRD])
    first, second = read_holdings(store, START_S)
    sizes = {record.key: record.header.total_bytes for record in (ONE, OTHER, THIRD, *chain)}
    assert (first.name, first.root, first.num_tokens, first.num_chunks) == ("/notes/a", "/notes", 8, 2)
    assert first.num_bytes == sum(sizes[record.key] for record in (ONE, OTHER, *chain))
    assert second.num_bytes == sum(sizes[record.key] for record in (OTHER, THIRD))
    assert (first.num_evicted, first.is_pinned) == (0, False)


def test_importance_is_the_mean_over_chunks_and_halves_with_time(store):
    put(store, "/notes/a", [ONE, OTHER])
    store.record_ask(replace(ASK, at=START_S), {ONE.key: 0.5})
    (now,) = read_holdings(store, START_S)
    (later,) = read_holdings(store, START_S + HALF_LIFE_S)
    written, asked = 0.3, 0.5 + 2 * 0.3
    assert now.importance == pytest.approx((written + asked) / 2)
    assert later.importance == pytest.approx(now.importance / 2)


def test_a_pin_is_told_and_a_document_without_chunks_weighs_nothing(store):
    put(store, "/notes/a", [ONE])
    put(store, "/notes/empty", [])
    pin_documents(store, ["/notes/a"])
    pinned, empty = read_holdings(store, START_S)
    assert (pinned.is_pinned, empty.is_pinned) == (True, False)
    assert (empty.num_chunks, empty.num_bytes, empty.importance) == (0, 0, 0.0)


@pytest.mark.parametrize("count", [0, 1, NUM_DOCUMENTS_PER_READ, NUM_DOCUMENTS_PER_READ + 1])
def test_every_document_comes_once_in_order_however_many_reads_that_takes(store, count):
    names = [f"/notes/{number:04}" for number in range(count)]
    for name in names:
        put(store, name, [ONE])
    assert [one.name for one in read_holdings(store, START_S)] == names


def test_no_read_is_open_while_the_caller_works(store):
    for number in range(NUM_DOCUMENTS_PER_READ + 1):
        put(store, f"/notes/{number:04}", [ONE])
    holdings = read_holdings(store, START_S)
    next(holdings)
    store.close()  # raises while a snapshot is open


def test_a_damaged_entry_is_left_out(store):
    put(store, "/notes/a", [ONE])
    put(store, "/notes/b", [OTHER])
    path = store.path
    store.close()
    data = raw_items(path, "documents")[b"/notes/a"]
    overwrite(path, "documents", b"/notes/a", flip_byte(data, 30))
    with ChunkStore.open(path, readonly=True) as again:
        assert [one.name for one in read_holdings(again, START_S)] == ["/notes/b"]


def test_a_damaged_count_is_a_lost_statistic(store):
    (link,) = make_chain(5)
    put(store, "/notes/a", [ONE], [link])
    path = store.path
    store.close()
    data = raw_items(path, "position_refs")[link.key]
    overwrite(path, "position_refs", link.key, flip_byte(data, 2))
    with ChunkStore.open(path, readonly=True) as again:
        (one,) = read_holdings(again, START_S)
    assert one.num_bytes == ONE.header.total_bytes
