"""The history of asks: listed, cleared, or not kept at all; sums stay."""

from dataclasses import replace

import pytest
from store_samples import IDENTITY, overwrite, raw_items

from store import AskEntry, ChunkStore, clear_asks, count_ask, list_asks
from store.sealed import seal

ASK = AskEntry(
    1.0, "m", "none", 9, 1, 2, 3, 4, 5, 0.5, 1, 2, 3, None, ("/a", "/b"), preamble="ab" * 32, excerpts=(None, (0, 2))
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        yield store


def test_asks_come_back_as_they_were_the_latest_first(store):
    asks = [replace(ASK, at=float(number)) for number in range(3)]
    for ask in asks:
        store.record_ask(ask)
    assert list_asks(store) == asks[::-1]


def test_an_ask_from_before_orders_were_kept_is_listed_without_one(store):
    store.record_ask(ASK)
    path = store.path
    store.close()
    values = {field: getattr(ASK, field) for field in ASK.__dataclass_fields__ if field not in ("preamble", "excerpts")}
    overwrite(path, "asks", (0).to_bytes(8, "big"), seal(values))
    with ChunkStore.open(path) as store:
        assert list_asks(store) == [replace(ASK, preamble="", excerpts=())]
        assert store.stats().num_asks == 1


def test_a_cleared_history_names_nothing_and_keeps_the_sums(store):
    for _ in range(3):
        store.record_ask(ASK)
    before = store.stats()
    assert clear_asks(store) == 3
    assert clear_asks(store) == 0
    after = store.stats()
    assert list_asks(store) == []
    assert (after.num_asks, after.documents_content) == (before.num_asks, before.documents_content) == (3, 6)
    assert after.ttft_p50_s is None
    store.record_ask(ASK)
    assert store.stats().num_asks == 4


def test_a_counted_ask_is_in_the_sums_alone(store):
    count_ask(store, ASK)
    assert list_asks(store) == []
    assert (store.stats().num_asks, store.stats().documents_miss) == (1, 3)
    path = store.path
    store.close()
    assert raw_items(path, "asks") == {}
    assert not any(b"/a" in data for data in raw_items(path, "meta").values())


def test_an_order_with_a_forgotten_document_between_is_no_order():
    without = ASK.without({"/a"})
    assert (without.documents, without.preamble, without.excerpts) == (("/b",), "", ())
