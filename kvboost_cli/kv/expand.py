"""From the stored arrays of many chunks to one layer's keys and values, ready for the cache."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .quantize import QuantizedTensor, dequantize_keys, dequantize_values, num_groups, token_groups
from .rotate import rotate_keys


def groups_of_chunks(num_tokens: Sequence[int], group: int) -> Tensor:
    """The key group of every token of chunks laid end to end: int64 [sum(num_tokens)].

    Groups start anew with each chunk: chunks of 3 and 2 tokens in groups of 2 give ``[0, 0, 1, 2, 2]``.
    """
    rows, first = [], 0
    for length in num_tokens:
        rows.append(token_groups(length, group) + first)
        first += num_groups(length, group)
    return torch.cat(rows)


def expand_layer(
    chunks: Sequence[tuple[Tensor, ...]],
    group_of_token: Tensor,
    cos: Tensor,
    sin: Tensor,
    bits: int,
) -> tuple[Tensor, Tensor]:
    """Dequantize one layer of all chunks and rotate its keys to their places.

    ``chunks`` are arrays as ``view_layer`` gives them; ``cos`` and ``sin`` fp32 [tokens, rotary_dim / 2] hold the
    angles of all tokens, chunk after chunk. Returns fp32 keys [kv_heads, tokens, key_dim] and values
    [kv_heads, tokens, value_dim].
    """
    arrays = [torch.cat(same, dim=1) for same in zip(*chunks, strict=True)]
    if bits == 16:
        keys, values = arrays[0].float(), arrays[1].float()
    else:
        keys = dequantize_keys(QuantizedTensor(*arrays[:3]), group_of_token, bits)
        values = dequantize_values(QuantizedTensor(*arrays[3:]), bits)
    return rotate_keys(keys, cos, sin), values
