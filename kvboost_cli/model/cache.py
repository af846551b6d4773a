"""The KV cache of one prompt: preallocated buffers that new keys and values are scattered into."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from .architecture import Geometry
from .importing import Cache, CacheLayerMixin


class ScatterLayer(CacheLayerMixin):
    """One layer's buffers, [batch, kv_heads, capacity, head_dim].

    ``update`` writes at the slots announced by ``ScatterCache.write_at`` and returns the whole buffers, so a pass over
    chosen tokens finds stored and fresh keys alike; which of them it sees is the attention's to say.
    """

    is_sliding = False
    keys: Tensor
    values: Tensor

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.slots: Tensor | slice = slice(0, 0)
        self.num_visible = 0
        self.is_initialized = True
        self.arrival: Callable[[], None] | None = None

    def settle(self) -> None:
        """Wait until the stored part of the layer is there, if it is still under way."""
        if self.arrival is not None:
            self.arrival()
            self.arrival = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing is lazy: the buffers exist from the start."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Scatter new KV, [batch, kv_heads, new, head_dim], and return the buffers."""
        self.settle()
        if isinstance(self.slots, slice):
            self.keys[:, :, self.slots] = key_states
            self.values[:, :, self.slots] = value_states
        else:
            self.keys.index_copy_(2, self.slots, key_states)
            self.values.index_copy_(2, self.slots, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Tokens that the next pass sees."""
        return self.num_visible

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys in the mask and their offset; kvboost makes its own masks, so this only has to be consistent."""
        return self.num_visible + query_length, 0

    def get_max_length(self) -> int:
        """Capacity in tokens (transformers from 5.20)."""
        return self.keys.shape[2]

    def get_max_cache_shape(self) -> int:
        """Capacity in tokens (transformers before 5.20)."""
        return self.get_max_length()


class ScatterCache(Cache):
    """All layers of one prompt's KV cache, allocated once with room for the answer; zero where nothing was written."""

    def __init__(
        self, geometry: Geometry, capacity: int, dtype: torch.dtype, device: torch.device, batch: int = 1
    ) -> None:
        key_shape = (batch, geometry.kv_heads, capacity, geometry.key_dim)
        value_shape = (batch, geometry.kv_heads, capacity, geometry.value_dim)
        self.buffers = [
            ScatterLayer(
                torch.zeros(key_shape, dtype=dtype, device=device),
                torch.zeros(value_shape, dtype=dtype, device=device),
            )
            for _ in range(geometry.num_layers)
        ]
        super().__init__(layers=list(self.buffers))
        self.capacity = capacity

    def write_at(self, positions: Sequence[int], first_layer: int = 0) -> None:
        """Announce where the next pass writes: ascending ``positions``, one per token of the pass.

        A pass that narrows to fewer tokens on its way announces them for the layers from ``first_layer`` on.
        """
        first, last = positions[0], positions[-1]
        assert last < self.capacity, f"position {last} is outside of the cache's {self.capacity}"
        slots: Tensor | slice = slice(first, last + 1)
        if last + 1 - first != len(positions):
            slots = torch.tensor(positions, device=self.buffers[0].keys.device)
        for layer in self.buffers[first_layer:]:
            layer.slots, layer.num_visible = slots, last + 1

    def reserve(self, capacity: int, num_kept: int) -> None:
        """Make room for ``capacity`` tokens, one layer after the other; only the first ``num_kept`` tokens are kept."""
        if capacity <= self.capacity:
            return
        for layer in self.buffers:
            layer.settle()
            layer.keys, layer.values = (_enlarged(old, capacity, num_kept) for old in (layer.keys, layer.values))
        self.capacity = capacity

    def expect(self, wait: Callable[[int], None] | None) -> None:
        """Call ``wait`` with a layer's number before that layer is first touched; None: nothing is under way."""
        for index, layer in enumerate(self.buffers):
            layer.arrival = None if wait is None else partial(wait, index)

    def layer_kv(self, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's whole buffers, keys and values, [batch, kv_heads, capacity, head_dim]; writing is allowed."""
        buffers = self.buffers[layer]
        buffers.settle()
        return buffers.keys, buffers.values


def _enlarged(buffer: Tensor, capacity: int, num_kept: int) -> Tensor:
    """[batch, kv_heads, old capacity, head_dim] -> [batch, kv_heads, capacity, head_dim], zero behind what is kept."""
    larger = buffer.new_zeros((*buffer.shape[:2], capacity, buffer.shape[3]))
    larger[:, :, :num_kept] = buffer[:, :, :num_kept]
    return larger
