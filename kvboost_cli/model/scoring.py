"""How much the question attends to each context token: one pass of few queries, attention recorded on the way.

The pass stops after the layers that are scored. It holds one layer's probabilities of its queries at a time, and
keeps one number per key: the largest probability that any query, head and scored layer gave it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

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


def score_keys(
    model: LoadedModel, token_ids: Tensor, positions: Sequence[int], kv: ScatterCache, num_layers: int
) -> Tensor:
    """Run tokens at ascending ``positions`` through the first ``num_layers`` layers and score all keys they see.

    ``token_ids`` int64 [1, tokens]. Writes the tokens' KV in those layers. Returns fp32 [keys], one score in 0 .. 1
    for each position up to the last one's.
    """
    scores = torch.zeros(positions[-1] + 1, device=model.device)
    with attention.switched(model.module, NAME), _stop_before(model, num_layers), suppress(_EnoughLayers):
        write_kv(model, token_ids, positions, kv, scores=scores)
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
    kvboost_scores: Tensor,
    scaling: float,
    **_kwargs: object,
) -> tuple[Tensor, None]:
    """Attention as ``attention.blockwise_attention`` computes it, which also raises ``kvboost_scores`` in place."""
    outputs = []
    for block in kvboost_blocks:
        rows = query[:, :, block.first : block.last]
        folded = rows.reshape(rows.shape[0], key.shape[1], -1, rows.shape[-1])
        logits = (folded @ key[:, :, : block.num_keys].transpose(2, 3)).float() * scaling
        if block.mask is not None:
            logits += block.mask
        probabilities = logits.softmax(-1)
        seen = kvboost_scores[: block.num_keys]
        torch.maximum(seen, probabilities.amax((0, 1, 2)), out=seen)
        out = probabilities.to(value.dtype) @ value[:, :, : block.num_keys]
        outputs.append(out.reshape(*rows.shape[:3], value.shape[-1]))
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register(NAME, scoring_attention)
AttentionMaskInterface.register(NAME, attention.no_mask)
