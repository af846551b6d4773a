"""How much the question attends to each context token: one pass of few queries, attention recorded on the way.

The pass stops after the layers that are scored. It holds one layer's probabilities of its queries at a time, and
keeps one number per key: the largest probability that any query, head and scored layer gave it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from . import attention
from .attention import QueryBlock
from .cache import ScatterCache
from .forward import write_kv
from .load import LoadedModel

NAME = "kvboost-scoring"


class _EnoughLayers(Exception):
    """Ends a pass before the layer that raises it."""


@dataclass(frozen=True)
class Recording:
    """Where attention is recorded: ``scores`` fp32 [keys], raised by the pass's rows from ``first_row`` on."""

    scores: Tensor
    first_row: int


def score_keys(
    model: LoadedModel,
    token_ids: Tensor,
    positions: Sequence[int],
    kv: ScatterCache,
    num_layers: int,
    num_scoring: int,
) -> Tensor:
    """Run tokens at ascending ``positions`` through the first ``num_layers`` layers; the last ones score all keys.

    ``token_ids`` int64 [1, tokens]; the last ``num_scoring`` of them are the question. Writes the tokens' KV in those
    layers. Returns fp32 [keys], one score in 0 .. 1 for each position up to the last one's.
    """
    scores = torch.zeros(positions[-1] + 1, device=model.device)
    with attention.switched(model.module, NAME), _stop_before(model, num_layers), suppress(_EnoughLayers):
        write_kv(model, token_ids, positions, kv, recording=Recording(scores, len(positions) - num_scoring))
    return scores


@contextmanager
def _stop_before(model: LoadedModel, layer: int) -> Iterator[None]:
    layers = model.layers
    if layer >= len(layers):
        yield
        return

    def stop(_layer: nn.Module, _inputs: tuple[Tensor, ...]) -> None:
        raise _EnoughLayers

    hook = layers[layer].register_forward_pre_hook(stop)
    try:
        yield
    finally:
        hook.remove()


def scoring_attention(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    *,
    kvboost_blocks: tuple[QueryBlock, ...],
    kvboost_recording: Recording,
    scaling: float,
    **_kwargs: object,
) -> tuple[Tensor, None]:
    """Attention as ``attention.blockwise_attention`` computes it, which also raises the recording's scores in place."""

    def attend(folded: Tensor, keys: Tensor, values: Tensor, block: QueryBlock) -> Tensor:
        logits = ((folded * scaling) @ keys.transpose(2, 3)).float()
        if block.mask is not None:
            logits += block.mask
        probabilities = logits.softmax(-1)
        _record(kvboost_recording, block, probabilities)
        return probabilities.to(values.dtype) @ values

    return attention.attend_blockwise(query, key, value, kvboost_blocks, attend), None


def _record(recording: Recording, block: QueryBlock, probabilities: Tensor) -> None:
    """Raise the scores by a block's ``probabilities``, [1, kv_heads, folds * queries, keys]."""
    num_queries = block.last - block.first
    batch, kv_heads, _folded, num_keys = probabilities.shape
    by_query = probabilities.view(batch, kv_heads, -1, num_queries, num_keys)
    scoring = by_query[:, :, :, max(0, recording.first_row - block.first) :]
    if scoring.shape[3]:
        seen = recording.scores[: block.num_keys]
        torch.maximum(seen, scoring.amax((0, 1, 2, 3)), out=seen)


AttentionInterface.register(NAME, scoring_attention)
AttentionMaskInterface.register(NAME, attention.no_mask)
