"""Store records made of keys and values: their layout, and what their headers say."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from store import ChunkRecord, build_record

from ..kv.layout import LayerShape, encode_layer
from ..model.fingerprint import ModelFingerprint
from ..model.load import LoadedModel
from .recipe import Recipe


def layer_shape(model: LoadedModel, recipe: Recipe, num_tokens: int) -> LayerShape:
    """The layout of one layer of a record of ``num_tokens``."""
    geometry = model.geometry
    return LayerShape(
        kv_heads=geometry.kv_heads,
        num_tokens=num_tokens,
        key_dim=geometry.key_dim,
        value_dim=geometry.value_dim,
        bits=recipe.bits,
        group=recipe.group,
        dtype=model.dtype,
    )


def content_record(
    key: bytes,
    fingerprint: ModelFingerprint,
    recipe: Recipe,
    shape: LayerShape,
    token_ids: Sequence[int],
    layers: Sequence[bytes],
) -> ChunkRecord:
    """A content record from its quantized layers; keys are without position."""
    return _make_record(key, fingerprint, recipe, shape, token_ids, layers)


def positional_record(
    key: bytes,
    model: LoadedModel,
    fingerprint: ModelFingerprint,
    recipe: Recipe,
    token_ids: Sequence[int],
    layers: Iterable[tuple[Tensor, Tensor]],
    *,
    rotated: bool,
) -> ChunkRecord:
    """A positional record from keys and values per layer, [kv_heads, tokens, head_dim].

    A preamble's keys are ``rotated``, and nothing of it is quantized; a document's record is laid out as a chunk's.
    """
    shape = layer_shape(model, recipe.unquantized if rotated else recipe, len(token_ids))
    encoded = [encode_layer(keys, values, shape) for keys, values in layers]
    return _make_record(key, fingerprint, recipe, shape, token_ids, encoded, positional=True, rotated=rotated)


def _make_record(
    key: bytes,
    fingerprint: ModelFingerprint,
    recipe: Recipe,
    shape: LayerShape,
    token_ids: Sequence[int],
    layers: Sequence[bytes],
    *,
    positional: bool = False,
    rotated: bool = False,
) -> ChunkRecord:
    return build_record(
        key, layers, fingerprint=fingerprint.digest, recipe=recipe.digest, dtype=fingerprint.dtype, bits=shape.bits,
        group=shape.group, kv_heads=shape.kv_heads, key_dim=shape.key_dim, value_dim=shape.value_dim,
        token_ids=token_ids, positional=positional, rotated=rotated,
    )  # fmt: skip
