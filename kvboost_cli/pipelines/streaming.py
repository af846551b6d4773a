"""From stored records to a filled cache, layer by layer beside the pass that reads it: what a GPU uses."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate

import numpy
import torch
from torch import Tensor

from store import ChunkHeader, Snapshot

from ..kv import placing
from ..kv.layout import LayerShape
from ..kv.placing import PlaceLayer, Placement, make_copier
from ..model.cache import ScatterCache
from ..model.load import LoadedModel
from ..model.streams import streaming
from .recipe import Recipe
from .records import layer_shape
from .stitch import StoredChunk, load_chunks, load_preamble

MakePlacer = Callable[[Placement], PlaceLayer]


@dataclass(frozen=True)
class StoredPrompt:
    """What the store has of a prompt of ``num_positions``: its preamble's key and header, or None, and its chunks."""

    preamble: tuple[bytes, ChunkHeader] | None
    chunks: Sequence[StoredChunk]
    num_positions: int


LoadStored = Callable[[Snapshot, StoredPrompt, LoadedModel, Recipe, ScatterCache], None]
"""Fills the cache with what is stored; may raise the store's ``DamagedRecord``."""


def choose_loader(device: torch.device) -> LoadStored:
    """By streams on a GPU, else in this thread."""
    return _load_by_stream if device.type == "cuda" else _load_in_place


def _load_in_place(
    snapshot: Snapshot, stored: StoredPrompt, model: LoadedModel, recipe: Recipe, kv: ScatterCache
) -> None:
    if stored.preamble is not None:
        load_preamble(snapshot, *stored.preamble, model, recipe, kv)
    load_chunks(snapshot, stored.chunks, model, recipe, stored.num_positions, kv)


def _load_by_stream(
    snapshot: Snapshot, stored: StoredPrompt, model: LoadedModel, recipe: Recipe, kv: ScatterCache
) -> None:
    with stream_stored(snapshot, stored, model, recipe, kv, choose_placer(model.device)):
        pass  # the end waits for every layer


def has_kernel(device: torch.device) -> bool:
    """Whether stored layers are expanded by the fused kernel there."""
    return device.type == "cuda" and find_spec("triton") is not None


def choose_placer(device: torch.device) -> MakePlacer:
    """The fused kernel on a GPU whose torch has Triton, plain torch elsewhere."""
    if not has_kernel(device):
        return placing.make_placer
    from ..kv import fused

    return fused.make_placer


@contextmanager
def stream_stored(
    snapshot: Snapshot, stored: StoredPrompt, model: LoadedModel, recipe: Recipe, kv: ScatterCache, make: MakePlacer
) -> Iterator[None]:
    """Fill the cache with what is stored, behind the passes that run within; all of it is there at the end.

    The snapshot is read in another thread meanwhile, and must not be used. Raises the store's ``DamagedRecord`` where
    a layer that fails its checksum is first touched, or at the end.
    """
    shapes = [layer_shape(model, recipe, chunk.header.num_tokens) for chunk in stored.chunks]
    records = [(chunk.key, chunk.header) for chunk in stored.chunks]
    placers: list[tuple[int, PlaceLayer]] = []
    if stored.preamble is not None:
        shape = layer_shape(model, recipe.unquantized, stored.preamble[1].num_tokens)
        records.insert(0, stored.preamble)
        placers.append((shape.num_bytes, make_copier(shape)))
    if shapes:
        placement = _placement(stored, shapes, model)
        placers.append((placement.num_bytes, make(placement)))
    if not placers:
        yield
        return
    num_bytes = sum(size for size, _placer in placers)
    with streaming(kv, num_bytes, _reader(snapshot, records), _in_turn(placers)):
        yield


def _placement(stored: StoredPrompt, shapes: Sequence[LayerShape], model: LoadedModel) -> Placement:
    runs = tuple(chunk.positions for chunk in stored.chunks)
    places = torch.tensor([place for run in runs for place in run], device=model.device)
    cos, sin = (angles[places] for angles in model.rotary_angles(stored.num_positions))
    return Placement(tuple(shapes), runs, cos, sin)


def _reader(snapshot: Snapshot, records: Sequence[tuple[bytes, ChunkHeader]]) -> Callable[[int, Tensor], None]:
    """Copies a layer of all records, end to end, out of the memory map."""

    def read(layer: int, target: Tensor) -> None:
        array, offset = target.numpy(), 0
        for key, header in records:
            data = snapshot.layer(key, layer, header)
            array[offset : offset + len(data)] = numpy.frombuffer(data, dtype=numpy.uint8)
            offset += len(data)

    return read


def _in_turn(placers: Sequence[tuple[int, PlaceLayer]]) -> PlaceLayer:
    """Each placer with its own part of the bytes, which has the size that stands before it."""
    starts = list(accumulate((size for size, _placer in placers), initial=0))

    def place(staged: Tensor, keys: Tensor, values: Tensor) -> None:
        for start, (size, placer) in zip(starts, placers, strict=False):
            placer(staged[start : start + size], keys, values)

    return place
