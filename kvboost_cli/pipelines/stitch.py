"""From stored records to a filled cache: read, copy out of the map, dequantize, rotate, place."""

from collections.abc import Iterator, Sequence
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

TILE_TOKENS = 1024
"""Tokens that are expanded at once on a CPU: 0.8 MB of keys in fp32 with 3 heads of 64."""


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
    shapes = [layer_shape(model, recipe, chunk.header.num_tokens) for chunk in chunks]
    staging = torch.empty(sum(shape.num_bytes for shape in shapes), dtype=torch.uint8)
    on_device = staging if model.device.type == "cpu" else staging.to(model.device)
    parts = torch.split(on_device, [shape.num_bytes for shape in shapes])
    arrays = [view_layer(part, shape) for part, shape in zip(parts, shapes, strict=True)]
    tiles = list(_tiles(chunks, arrays, model, recipe, num_positions))
    for layer in range(model.geometry.num_layers):
        _copy_layer(snapshot, chunks, layer, staging)
        if on_device is not staging:
            on_device.copy_(staging)
        for tile in tiles:
            keys, values = expand_layer(tile.arrays, tile.groups, tile.cos, tile.sin, recipe.bits)
            _place(kv, layer, tile.places, keys, values)


@dataclass(frozen=True)
class _Tile:
    """Chunks that are expanded together: the arrays of a layer, key groups, angles and places, all on the device.

    ``places`` is a slice where the chunks stand in a row, which is the rule: copying into it is several times faster.
    """

    arrays: tuple[tuple[Tensor, ...], ...]
    groups: Tensor
    cos: Tensor
    sin: Tensor
    places: Tensor | slice


def _tiles(
    chunks: Sequence[StoredChunk], arrays: Sequence[tuple[Tensor, ...]], model: LoadedModel, recipe: Recipe,
    num_positions: int,
) -> Iterator[_Tile]:  # fmt: skip
    """On a CPU few chunks at a time, so that what is in between stays in the core's cache; elsewhere all at once."""
    angles = model.rotary_angles(num_positions)
    for numbers in _share_out([chunk.header.num_tokens for chunk in chunks], model.device.type == "cpu"):
        part = chunks[numbers.start : numbers.stop]
        places = _places([place for chunk in part for place in chunk.positions], model.device)
        groups = groups_of_chunks([chunk.header.num_tokens for chunk in part], recipe.group).to(model.device)
        cos, sin = (angle[places] for angle in angles)
        yield _Tile(tuple(arrays[numbers.start : numbers.stop]), groups, cos, sin, places)


def _share_out(num_tokens: Sequence[int], in_tiles: bool) -> Iterator[range]:
    """Runs of chunks of at most TILE_TOKENS together, but for a longer chunk."""
    first, total = 0, 0
    for number, length in enumerate(num_tokens):
        if in_tiles and total and total + length > TILE_TOKENS:
            yield range(first, number)
            first, total = number, 0
        total += length
    yield range(first, len(num_tokens))


def _copy_layer(snapshot: Snapshot, chunks: Sequence[StoredChunk], layer: int, staging: Tensor) -> None:
    """The layer of all chunks, end to end, out of the memory map into ``staging``, uint8 [bytes]."""
    target, offset = staging.numpy(), 0
    for chunk in chunks:
        data = snapshot.layer(chunk.key, layer, chunk.header)
        target[offset : offset + len(data)] = numpy.frombuffer(data, dtype=numpy.uint8)
        offset += len(data)


def _places(positions: Sequence[int], device: torch.device) -> Tensor | slice:
    first, last = positions[0], positions[-1]
    in_a_row = last + 1 - first == len(positions)
    return slice(first, last + 1) if in_a_row else torch.tensor(positions, device=device)


def _place(kv: ScatterCache, layer: int, places: Tensor | slice, keys: Tensor, values: Tensor) -> None:
    for cached, fresh in zip(kv.layer_kv(layer), (keys, values), strict=True):
        if isinstance(places, slice):
            cached[0][:, places] = fresh
        else:
            cached[0].index_copy_(1, places, fresh.to(cached.dtype))


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
