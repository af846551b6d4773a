"""What the contracts of a chunk store share; see `store_contract`."""

from collections.abc import Callable, Iterator

import pytest
from store_samples import IDENTITY

from store import ChunkStore, StoreIdentity


class StoreContract:
    """A subclass has a fixture `new_store` that makes a new, empty store of an identity."""

    @pytest.fixture
    def store(self, new_store: Callable[[StoreIdentity], ChunkStore]) -> Iterator[ChunkStore]:
        with new_store(IDENTITY) as store:
            yield store
