"""From stored records to a filled cache: read, copy out of the map, dequantize, rotate, place."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from store import ChunkHeader, Snapshot

from ..kv.expand import expand_layer, groups_of_chunks
from ..kv.layout import view_layer
from ..model.cache import ScatterCache
from ..model.load import LoadedModel
from .plan import PlacedChunk
from .recipe import Recipe
from .records import layer_shape


@dataclass(frozen=True)
class StoredChunk:
    """A chunk that was found: where it goes, under which key it is stored, and its header."""

    placed: PlacedChunk
    key: bytes
    header: ChunkHeader

    @property
    def positions(self) -> range:
        """The record's places in the prompt, which end with the chunk: it may begin with a document's header."""
        return range(self.placed.positions.stop - self.header.num_tokens, self.placed.positions.stop)


def load_chunks(
    snapshot: Snapshot, chunks: Sequence[StoredChunk], model: LoadedModel, recipe: Recipe, num_positions: int,
    kv: ScatterCache,
) -> None:  # fmt: skip
    """Fill the cache at the chunks' places, layer by layer; ``num_positions`` is the prompt's length.

    Raises the store's ``DamagedRecord`` at the first layer that fails its checksum.
    """
    if not chunks:
        return
    places = torch.tensor([place for chunk in chunks for place in chunk.positions], device=model.device)
    cos, sin = (angles[places] for angles in model.rotary_angles(num_positions))
    groups = groups_of_chunks([chunk.header.num_tokens for chunk in chunks], recipe.group).to(model.device)
    shapes = [layer_shape(model, recipe, chunk.header.num_tokens) for chunk in chunks]
    staging = torch.empty(sum(shape.num_bytes for shape in shapes), dtype=torch.uint8)
    on_device = staging if model.device.type == "cpu" else staging.to(model.device)
    parts = torch.split(on_device, [shape.num_bytes for shape in shapes])
    arrays = [view_layer(part, shape) for part, shape in zip(parts, shapes, strict=True)]
    for layer in range(model.geometry.num_layers):
        _copy_layer(snapshot, chunks, layer, staging)
        if on_device is not staging:
            on_device.copy_(staging)
        keys, values = expand_layer(arrays, groups, cos, sin, recipe.bits)
        _place(kv, layer, places, keys, values)


def _copy_layer(snapshot: Snapshot, chunks: Sequence[StoredChunk], layer: int, staging: Tensor) -> None:
    """The layer of all chunks, end to end, out of the memory map into ``staging``, uint8 [bytes]."""
    target, offset = staging.numpy(), 0
    for chunk in chunks:
        data = snapshot.layer(chunk.key, layer, chunk.header)
        target[offset : offset + len(data)] = numpy.frombuffer(data, dtype=numpy.uint8)
        offset += len(data)


def _place(kv: ScatterCache, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
    cached_keys, cached_values = kv.layer_kv(layer)
    cached_keys[0].index_copy_(1, places, keys.to(cached_keys.dtype))
    cached_values[0].index_copy_(1, places, values.to(cached_values.dtype))


def load_preamble(
    snapshot: Snapshot, key: bytes, header: ChunkHeader, model: LoadedModel, recipe: Recipe, kv: ScatterCache
) -> None:
    """Fill the cache's first tokens with exact KV, whose keys are stored rotated and unquantized."""
    shape = layer_shape(model, recipe.unquantized, header.num_tokens)
    for layer in range(model.geometry.num_layers):
        staging = torch.empty(shape.num_bytes, dtype=torch.uint8)
        staging.numpy()[:] = numpy.frombuffer(snapshot.layer(key, layer, header), dtype=numpy.uint8)
        keys, values = view_layer(staging.to(model.device), shape)
        cached_keys, cached_values = kv.layer_kv(layer)
        cached_keys[0, :, : header.num_tokens] = keys
        cached_values[0, :, : header.num_tokens] = values
