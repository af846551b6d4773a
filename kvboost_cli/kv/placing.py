"""One layer of all stored chunks of a prompt, from its bytes to its places in the cache.

``make_placer`` is the reference, in plain torch; ``fused.make_placer`` makes one that does the same in one kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .expand import expand_layer, groups_of_chunks
from .layout import LayerShape, view_layer

PlaceLayer = Callable[[Tensor, Tensor, Tensor], None]
"""Takes a layer's stored bytes, uint8 [bytes], and the cache's keys [kv_heads, capacity, key_dim] and values, and
writes all stored tokens of that layer at their places there, in the cache's dtype."""


@dataclass(frozen=True)
class Placement:
    """Where a layer's stored bytes go: the same for every layer of a prompt.

    ``shapes`` are those of the chunks, whose bytes lie end to end; they differ in their number of tokens alone.
    ``places`` are each chunk's positions in the prompt; ``cos`` and ``sin`` fp32 [tokens, rotary_dim / 2] are the
    angles of all tokens, chunk after chunk, on the device of the bytes.
    """

    shapes: tuple[LayerShape, ...]
    places: tuple[range, ...]
    cos: Tensor
    sin: Tensor

    @property
    def num_bytes(self) -> int:
        """Length of a layer's bytes."""
        return sum(shape.num_bytes for shape in self.shapes)


def make_placer(placement: Placement) -> PlaceLayer:
    """Expand and rotate in fp32, cast, and copy into place: one tensor operation after the other."""
    shapes, device = placement.shapes, placement.cos.device
    places = torch.tensor([place for run in placement.places for place in run], device=device)
    groups = groups_of_chunks([shape.num_tokens for shape in shapes], shapes[0].group).to(device)
    sizes = [shape.num_bytes for shape in shapes]

    def place(staged: Tensor, keys: Tensor, values: Tensor) -> None:
        arrays = [view_layer(part, shape) for part, shape in zip(torch.split(staged, sizes), shapes, strict=True)]
        expanded = expand_layer(arrays, groups, placement.cos, placement.sin, shapes[0].bits)
        for cached, fresh in zip((keys, values), expanded, strict=True):
            cached.index_copy_(1, places, fresh.to(cached.dtype))

    return place


def make_copier(shape: LayerShape) -> PlaceLayer:
    """For one unquantized record whose keys are rotated: the prompt's first tokens, as they are."""

    def place(staged: Tensor, keys: Tensor, values: Tensor) -> None:
        stored_keys, stored_values = view_layer(staged, shape)
        keys[:, : shape.num_tokens] = stored_keys
        values[:, : shape.num_tokens] = stored_values

    return place
