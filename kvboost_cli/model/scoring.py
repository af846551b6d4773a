"""How much the question attends to each context token: one pass of few queries, attention recorded on the way.

The pass stops in the last layer that is scored. It holds one layer's probabilities of its queries at a time, and
keeps two numbers per key: the largest probability that any query, head and scored layer gave it, and the mean of all.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import attention
from .attention import AttentionPlan, QueryBlock
from .cache import ScatterCache
from .forward import write_kv
from .importing import AttentionInterface, AttentionMaskInterface
from .load import LoadedModel

NAME = "kvboost-scoring"


class _EnoughLayers(Exception):
    """Ends a pass within the last layer that scores: nothing behind its attention is needed."""


@dataclass(frozen=True)
class KeyAttention:
    """What each key got, fp32 [keys]: ``peak`` is the largest probability, ``mass`` the mean one.

    A query's probabilities sum to 1, so the mass of all keys does, too.
    """

    peak: Tensor
    mass: Tensor


@dataclass(frozen=True)
class Recording:
    """Where attention is recorded: of the pass's rows from ``first_row`` on, each with this ``weight`` in the mass.

    A block of queries begins at ``first_row``. The pass ends in ``last_layer``.
    """

    attention: KeyAttention
    first_row: int
    weight: float
    last_layer: int


def score_keys(
    model: LoadedModel,
    token_ids: Tensor,
    positions: Sequence[int],
    kv: ScatterCache,
    num_layers: int,
    num_scoring: int,
) -> KeyAttention:
    """Run tokens at ascending ``positions`` through the first ``num_layers`` layers; the last ones score all keys.

    ``token_ids`` int64 [1, tokens]; the last ``num_scoring`` of them are the question. Writes the tokens' KV in those
    layers. Returns the attention to each position up to the last one's.
    """
    num_keys = positions[-1] + 1
    geometry = model.geometry
    attended = KeyAttention(*(torch.zeros(num_keys, device=model.device) for _ in range(2)))
    weight = 1.0 / (num_layers * geometry.kv_heads * geometry.num_folds * num_scoring)
    first_row = len(positions) - num_scoring
    recording = Recording(attended, first_row, weight, last_layer=num_layers - 1)
    with attention.switched(model.module, NAME), suppress(_EnoughLayers):
        write_kv(model, token_ids, positions, kv, recording=recording, cut=first_row)
    return attended


def scoring_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    *,
    kvboost_plan: AttentionPlan,
    kvboost_recording: Recording,
    scaling: float | None = None,
    **_kwargs: object,
) -> tuple[Tensor, None]:
    """Attention as ``attention.blockwise_attention`` computes it, which is also recorded."""

    def attend(folded: Tensor, keys: Tensor, values: Tensor, block: QueryBlock, scaling: float | None) -> Tensor:
        if block.last <= kvboost_recording.first_row:
            return kvboost_plan.attend(folded, keys, values, block, scaling)
        probabilities = attention.attention_probabilities(folded, keys, block, scaling)
        _record(kvboost_recording, probabilities[0].flatten(0, 1).float())
        return attention.head_products(probabilities, values)

    output = attention.attend_blockwise(query, key, value, kvboost_plan, attend, scaling)
    if module.layer_idx == kvboost_recording.last_layer:
        raise _EnoughLayers
    return output, None


def _record(recording: Recording, probabilities: Tensor) -> None:
    """Add ``probabilities``, fp32 [rows, keys], of rows that score; keys behind the prompt have none."""
    probabilities = probabilities[:, : len(recording.attention.peak)]
    seen = slice(0, probabilities.shape[1])
    peak, mass = recording.attention.peak[seen], recording.attention.mass[seen]
    torch.maximum(peak, probabilities.amax(0), out=peak)
    mass.add_(probabilities.sum(0), alpha=recording.weight)


AttentionInterface.register(NAME, scoring_attention)
AttentionMaskInterface.register(NAME, attention.no_mask)
