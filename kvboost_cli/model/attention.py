"""Attention for chosen queries over a long cache, registered with transformers under the name ``kvboost``.

transformers' own SDPA path, given a mask, copies every key and value head once per query head and lets every
query look at every key. Here a key-value head's group of query heads is folded into the query axis (same maths,
no copy), and queries go in blocks that see only the keys up to their last position. The plan of blocks and masks
is made once per pass and reaches this function through the model's keyword arguments, so the same tensors serve
all layers. Masks are additive: a boolean mask takes a slow path on CPUs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

NAME = "kvboost"
BLOCK_QUERIES = 256
SPARSE_BLOCK_QUERIES = 32
"""In a pass of no more than one block's queries: these are spread over the prompt, so early ones see few keys."""


@dataclass(frozen=True)
class QueryBlock:
    """Queries ``first .. last - 1`` of a pass look at the first ``num_keys`` keys.

    ``mask`` is additive, [1, 1, folds * queries, num_keys], or None when all those keys are seen.
    """

    first: int
    last: int
    num_keys: int
    mask: Tensor | None


def plan_attention(
    positions: Sequence[int], num_folds: int, dtype: torch.dtype, device: torch.device, cut: int = 0
) -> tuple[QueryBlock, ...]:
    """Blocks for queries at ascending ``positions`` under ``key_position <= query_position``.

    ``num_folds`` is the number of query heads per key-value head. A block begins at query ``cut``.
    """
    size = SPARSE_BLOCK_QUERIES if len(positions) <= BLOCK_QUERIES else BLOCK_QUERIES
    blocks = []
    for first in (*range(0, cut, size), *range(cut, len(positions), size)):
        last = first + size
        rows = positions[first : min(last, cut) if first < cut else last]
        num_keys = rows[-1] + 1
        mask = None
        if len(rows) > 1:
            mask = _causal_mask(torch.tensor(rows, device=device), num_keys, num_folds, dtype)
        blocks.append(QueryBlock(first, first + len(rows), num_keys, mask))
    return tuple(blocks)


def _causal_mask(rows: Tensor, num_keys: int, num_folds: int, dtype: torch.dtype) -> Tensor:
    hidden = torch.arange(num_keys, device=rows.device) > rows[:, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=rows.device).masked_fill_(hidden, -torch.inf)
    return mask.repeat(num_folds, 1)[None, None]


def blockwise_attention(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    *,
    kvboost_blocks: tuple[QueryBlock, ...],
    scaling: float | None = None,
    dropout: float = 0.0,
    **_kwargs: object,
) -> tuple[Tensor, None]:
    """Attention of ``query`` [batch, heads, queries, key_dim] over ``key`` [batch, kv_heads, keys, key_dim].

    Returns [batch, queries, heads, value_dim], as transformers expects it.
    """

    def attend(folded: Tensor, keys: Tensor, values: Tensor, block: QueryBlock) -> Tensor:
        return scaled_dot_product_attention(
            folded, keys, values, attn_mask=block.mask, dropout_p=dropout, scale=scaling
        )

    return attend_blockwise(query, key, value, kvboost_blocks, attend), None


Attend = Callable[[Tensor, Tensor, Tensor, QueryBlock], Tensor]
"""Attention of one block: folded queries [batch, kv_heads, folds * queries, key_dim], and the keys and values seen."""


def attend_blockwise(query: Tensor, key: Tensor, value: Tensor, blocks: Sequence[QueryBlock], attend: Attend) -> Tensor:
    """Fold each block's queries, attend, and put the results back in order: [batch, queries, heads, value_dim]."""
    outputs = []
    for block in blocks:
        rows = query[:, :, block.first : block.last]
        folded = rows.reshape(rows.shape[0], key.shape[1], -1, rows.shape[-1])
        out = attend(folded, key[:, :, : block.num_keys], value[:, :, : block.num_keys], block)
        outputs.append(out.reshape(*rows.shape[:3], value.shape[-1]))
    return torch.cat(outputs, dim=2).transpose(1, 2)


@contextmanager
def switched(module: PreTrainedModel, name: str) -> Iterator[None]:
    """Another attention implementation for a while, by its name in transformers' registry."""
    module.set_attn_implementation(name)
    try:
        yield
    finally:
        module.set_attn_implementation(NAME)


def no_mask(*_args: object, **_kwargs: object) -> None:
    """Our attention plans its own masks; transformers has none to make."""
    return


AttentionInterface.register(NAME, blockwise_attention)
AttentionMaskInterface.register(NAME, no_mask)
