"""The LMDB store keeps the contract."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from positions_contract import PositionsContract
from store_contract import ASK, ChunkStoreContract
from store_samples import IDENTITY, audit, raw_items

from store import ChunkStore, StoreIdentity
from store.asks import NUM_KEPT_ASKS


class TestChunkStore(ChunkStoreContract, PositionsContract):
    @pytest.fixture
    def new_store(self, tmp_path) -> Iterator[Callable[[StoreIdentity], ChunkStore]]:
        yield lambda identity: ChunkStore.create(tmp_path / "store", identity)
        audit(tmp_path / "store")


def test_old_asks_roll_into_totals(tmp_path):
    num_asks = NUM_KEPT_ASKS + 5
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        for number in range(num_asks):
            store.record_ask(replace(ASK, ttft_s=100.0 if number < 5 else 1.0 + number))
        stats = store.stats()
    assert len(raw_items(tmp_path / "store", "asks")) == NUM_KEPT_ASKS
    assert (stats.num_asks, stats.documents_miss) == (num_asks, 3 * num_asks)
    assert stats.ttft_p50_s == 1.0 + 5 + NUM_KEPT_ASKS / 2 - 1
