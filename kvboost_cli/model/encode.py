"""Context-averaged encoding: the KV of a stretch of text, expected over what may stand before it.

A stretch is run behind several prefixes, its keys are turned back to no position, and keys and values are averaged
over the prefixes. Stretches and prefixes form one batch: a GPU takes them all at once. Shorter stretches are
padded at their end, where a causal model does not look.

Exact encoding runs a text once, behind the very prefix that it will have in a prompt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from ..kv.rotate import unrotate_keys
from .cache import ScatterCache
from .forward import write_kv
from .load import LoadedModel

PASS_TOKENS = 512
"""Tokens of one pass of exact encoding, but for a longer run: bounds a pass's activations, and is a sign of life."""


@dataclass(frozen=True)
class PrefixKV:
    """The exact KV of a prefix at positions ``0 .. num_tokens - 1``, keys rotated, in the model's dtype.

    ``layers`` holds per layer keys and values, [kv_heads, num_tokens, head_dim].
    """

    num_tokens: int
    layers: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class EncodeWindow:
    """A stretch to encode: ``context_ids`` are run before ``kept_ids``, but only the latter's KV is kept."""

    context_ids: tuple[int, ...]
    kept_ids: tuple[int, ...]


LayerKV = tuple[Tensor, Tensor]
"""One layer of one window: unrotated keys and values, fp32 [kv_heads, kept_tokens, head_dim]."""


def encode_prefix(model: LoadedModel, token_ids: Sequence[int]) -> PrefixKV:
    """Run a prefix, which may be empty, and keep its exact KV."""
    if not token_ids:
        return PrefixKV(0, ())
    kv = ScatterCache(model.geometry, len(token_ids), model.dtype, model.device)
    write_kv(model, torch.tensor([list(token_ids)], device=model.device), range(len(token_ids)), kv)
    layers = tuple((keys[0], values[0]) for keys, values in map(kv.layer_kv, range(model.geometry.num_layers)))
    return PrefixKV(len(token_ids), layers)


def encode_windows(
    model: LoadedModel, windows: Sequence[EncodeWindow], prefixes: Sequence[Sequence[PrefixKV]]
) -> Iterator[list[LayerKV]]:
    """KV of each window averaged over its own prefixes, layer by layer, windows in order.

    Every window has the same number of prefixes and all prefixes have one length, so the batch is rectangular.
    """
    length = prefixes[0][0].num_tokens
    assert all(prefix.num_tokens == length for row in prefixes for prefix in row), "prefixes differ in length"
    kv = _run_batch(model, windows, prefixes, length)
    cos, sin = model.rotary_angles(length + max(_num_tokens(window) for window in windows))
    for layer in range(model.geometry.num_layers):
        keys, values = kv.layer_kv(layer)
        yield [
            _average(keys[rows, :, kept], values[rows, :, kept], cos[kept], sin[kept])
            for rows, kept in _places(windows, len(prefixes[0]), length)
        ]


def encode_runs(
    model: LoadedModel, prefix: PrefixKV, runs: Sequence[Sequence[int]]
) -> Iterator[list[tuple[int, Iterator[LayerKV]]]]:
    """Exact KV of runs of tokens that stand in a row behind a prefix; yields, pass by pass, numbers and layers of runs.

    A run's layers are made while they are taken.
    """
    edges = list(accumulate(map(len, runs), initial=prefix.num_tokens))
    assert model.rope_variant(edges[-1]) == 0, "the runs end beyond the place where longrope's factors change"
    kv = ScatterCache(model.geometry, edges[-1], model.dtype, model.device)
    _place_prefix(kv, 0, prefix)
    for numbers in _passes(edges):
        ids = [token for number in numbers for token in runs[number]]
        positions = range(edges[numbers.start], edges[numbers.stop])
        write_kv(model, torch.tensor([ids], device=model.device), positions, kv)
        yield [(number, _unrotated_layers(model, kv, slice(edges[number], edges[number + 1]))) for number in numbers]


def _passes(edges: Sequence[int]) -> Iterator[range]:
    """Numbers of the runs of each pass; run ``i`` lies between edges ``i`` and ``i + 1``."""
    first = 0
    for number in range(1, len(edges)):
        if number == len(edges) - 1 or edges[number + 1] - edges[first] > PASS_TOKENS:
            yield range(first, number)
            first = number


def _unrotated_layers(model: LoadedModel, kv: ScatterCache, places: slice) -> Iterator[LayerKV]:
    cos, sin = model.rotary_angles(places.stop)
    for keys, values in map(kv.layer_kv, range(model.geometry.num_layers)):
        yield _average(keys[:, :, places], values[:, :, places], cos[places], sin[places])


def _place_prefix(kv: ScatterCache, row: int, prefix: PrefixKV) -> None:
    for layer, (prefix_keys, prefix_values) in enumerate(prefix.layers):
        keys, values = kv.layer_kv(layer)
        keys[row, :, : prefix.num_tokens], values[row, :, : prefix.num_tokens] = prefix_keys, prefix_values


def _run_batch(
    model: LoadedModel, windows: Sequence[EncodeWindow], prefixes: Sequence[Sequence[PrefixKV]], length: int
) -> ScatterCache:
    longest = max(_num_tokens(window) for window in windows)
    rows = [prefix for row in prefixes for prefix in row]
    kv = ScatterCache(model.geometry, length + longest, model.dtype, model.device, batch=len(rows))
    for row, prefix in enumerate(rows):
        _place_prefix(kv, row, prefix)
    ids = [_padded(window, longest) for window, row in zip(windows, prefixes, strict=True) for _ in row]
    write_kv(model, torch.tensor(ids, device=model.device), range(length, length + longest), kv)
    return kv


def _places(windows: Sequence[EncodeWindow], num_contexts: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Batch rows and kept positions of each window."""
    for index, window in enumerate(windows):
        first = length + len(window.context_ids)
        yield (
            slice(index * num_contexts, (index + 1) * num_contexts),
            slice(first, first + len(window.kept_ids)),
        )


def _average(keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> LayerKV:
    """Mean over contexts, [contexts, kv_heads, tokens, head_dim] -> [kv_heads, tokens, head_dim]."""
    return unrotate_keys(keys, cos, sin).mean(0), values.float().mean(0)


def _num_tokens(window: EncodeWindow) -> int:
    return len(window.context_ids) + len(window.kept_ids)


def _padded(window: EncodeWindow, length: int) -> list[int]:
    ids = [*window.context_ids, *window.kept_ids]
    return ids + [ids[-1]] * (length - len(ids))
