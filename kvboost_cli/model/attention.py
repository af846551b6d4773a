"""Attention for chosen queries over a long cache, registered with transformers under the name ``kvboost``.

transformers' own SDPA path, given a mask, copies every key and value head once per query head and lets every
query look at every key. Here a key-value head's group of query heads is folded into the query axis (same maths,
no copy), and queries go in blocks that see only the keys up to their last position. The plan of blocks and masks
is made once per pass and reaches this function through the model's keyword arguments, so the same tensors serve
all layers. Masks are additive: a boolean mask takes a slow path on CPUs.

A pass of few queries on a CPU goes by plain matrix products, up to twice as fast there as the fused kernel, which
is made for many queries. They are fastest on whole buffers, since a slice of several heads would be copied: so a
block that sees most of a buffer takes all of it, behind the mask, and one that sees less goes head by head.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .importing import AttentionInterface, AttentionMaskInterface, PreTrainedModel

NAME = "kvboost"
BLOCK_QUERIES = 256
SPARSE_BLOCK_QUERIES = 32
"""In a pass of no more than one block's queries: these are spread over the prompt, so early ones see few keys."""

WHOLE_SHARE = 0.75
"""A block on a CPU that sees this much of a buffer takes the whole."""


@dataclass(frozen=True)
class QueryBlock:
    """Queries ``first .. last - 1`` of a pass are computed with the first ``num_keys`` keys.

    All of them see the first ``num_open``. ``mask`` is additive, for the keys behind those, [1, 1, folds * queries,
    num_keys - num_open], or None if there are none.
    """

    first: int
    last: int
    num_keys: int
    num_open: int
    mask: Tensor | None


Attend = Callable[[Tensor, Tensor, Tensor, QueryBlock, float | None], Tensor]
"""Attention of one block: folded queries [batch, kv_heads, folds * queries, key_dim], the keys and values seen, and
the scale of the logits. Returns [batch, kv_heads, folds * queries, value_dim]."""


@dataclass(frozen=True)
class AttentionPlan:
    """How one pass attends: its blocks of queries, and what computes one."""

    blocks: tuple[QueryBlock, ...]
    attend: Attend


def plan_attention(
    positions: Sequence[int], capacity: int, num_folds: int, dtype: torch.dtype, device: torch.device, cut: int = 0
) -> AttentionPlan:
    """Blocks for queries at ascending ``positions`` under ``key_position <= query_position``.

    The buffers hold ``capacity`` keys; those that were never written are finite. ``num_folds`` is the number of query
    heads per key-value head. A block begins at query ``cut``.
    """
    is_sparse = len(positions) <= BLOCK_QUERIES
    by_products = is_sparse and device.type == "cpu"
    size = SPARSE_BLOCK_QUERIES if is_sparse else BLOCK_QUERIES
    blocks = []
    for first in (*range(0, cut, size), *range(cut, len(positions), size)):
        last = first + size
        rows = positions[first : min(last, cut) if first < cut else last]
        num_keys = rows[-1] + 1
        if by_products and num_keys >= WHOLE_SHARE * capacity:
            num_keys = capacity
        num_open = rows[0] + 1 if by_products or len(rows) == 1 else 0
        mask = None
        if num_open < num_keys:
            mask = _causal_mask(torch.tensor(rows, device=device), num_open, num_keys, num_folds, dtype)
        blocks.append(QueryBlock(first, first + len(rows), num_keys, num_open, mask))
    return AttentionPlan(tuple(blocks), attend_by_products if by_products else attend_fused)


def _causal_mask(rows: Tensor, num_open: int, num_keys: int, num_folds: int, dtype: torch.dtype) -> Tensor:
    hidden = torch.arange(num_open, num_keys, device=rows.device) > rows[:, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=rows.device).masked_fill_(hidden, -torch.inf)
    return mask.repeat(num_folds, 1)[None, None]


def blockwise_attention(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    *,
    kvboost_plan: AttentionPlan,
    scaling: float | None = None,
    **_kwargs: object,
) -> tuple[Tensor, None]:
    """Attention of ``query`` [batch, heads, queries, key_dim] over ``key`` [batch, kv_heads, keys, key_dim].

    Returns [batch, queries, heads, value_dim], as transformers expects it.
    """
    return attend_blockwise(query, key, value, kvboost_plan, kvboost_plan.attend, scaling), None


def attend_blockwise(
    query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan, attend: Attend, scaling: float | None
) -> Tensor:
    """Fold each block's queries, attend, and put the results back in order: [batch, queries, heads, value_dim]."""
    outputs = []
    for block in plan.blocks:
        rows = query[:, :, block.first : block.last]
        folded = rows.reshape(rows.shape[0], key.shape[1], -1, rows.shape[-1])
        out = attend(folded, key[:, :, : block.num_keys], value[:, :, : block.num_keys], block, scaling)
        outputs.append(out.reshape(*rows.shape[:3], value.shape[-1]))
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)).transpose(1, 2)


def attend_fused(folded: Tensor, keys: Tensor, values: Tensor, block: QueryBlock, scaling: float | None) -> Tensor:
    """One block by torch's fused kernel; its mask, if there is one, covers all keys (``num_open`` is 0)."""
    return scaled_dot_product_attention(folded, keys, values, attn_mask=block.mask, scale=scaling)


def attend_by_products(
    folded: Tensor, keys: Tensor, values: Tensor, block: QueryBlock, scaling: float | None
) -> Tensor:
    """One block by two matrix products."""
    return head_products(attention_probabilities(folded, keys, block, scaling), values)


def attention_probabilities(folded: Tensor, keys: Tensor, block: QueryBlock, scaling: float | None) -> Tensor:
    """What each query gives each key: [batch, kv_heads, folds * queries, keys], in the queries' dtype."""
    scale = folded.shape[-1] ** -0.5 if scaling is None else scaling
    logits = head_products(folded * scale, keys, transposed=True)
    if block.mask is not None:
        logits[..., block.num_open :] += block.mask
    return logits.softmax(-1)


def head_products(rows: Tensor, buffers: Tensor, *, transposed: bool = False) -> Tensor:
    """``rows @ buffers`` for each batch row and head, without copying what is a slice of larger buffers."""
    matrices = buffers.transpose(2, 3) if transposed else buffers
    if buffers.is_contiguous() or buffers.device.type != "cpu":
        return rows @ matrices
    pairs = zip(rows.flatten(0, 1), (head for row in matrices for head in row), strict=True)
    products = torch.stack([left @ right for left, right in pairs])
    return products.view(*rows.shape[:2], *products.shape[1:])


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
