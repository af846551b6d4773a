"""Asymmetric quantization of keys and values, with a zero point per group.

A group of ``g`` numbers becomes codes ``c`` in ``0 .. 2**bits - 1`` with ``x ~ zero + scale * c``. Scale and zero
are rounded to fp16 *outwards* before the codes are taken, so that the range of codes covers the group and the
error is at most half a step. Keys are grouped along tokens, one group per channel, before rotation: a channel's
constant bias (Qwen2's ``k_proj`` has huge ones) vanishes into its zero point. Values are grouped along channels,
one group per token. This is the axis choice of KIVI (Liu et al. 2024, section 3). Four-bit codes are packed two to
a byte: channel ``i`` in the low half, channel ``i + head_dim / 2`` in the high half.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import QuantizationRange

BITS = (4, 8, 16)
"""Supported widths; 16 keeps the model's own dtype, unquantized."""

SMALLEST_HALF = 2.0**-24
"""Smallest positive fp16 number: the scale of a group whose members are all equal."""


@dataclass(frozen=True)
class QuantizedTensor:
    """Codes with their groups' parameters.

    ``codes`` uint8 [kv_heads, tokens, dim] (8 bits) or [kv_heads, tokens, dim / 2] (4 bits); ``scale`` and
    ``zero`` fp16, keys [kv_heads, groups_of_tokens, dim], values [kv_heads, tokens, groups_of_channels].
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor


def num_groups(length: int, group: int) -> int:
    """Groups of at most ``group`` members that cover ``length``: ``num_groups(70, 32) == 3``."""
    return -(-length // group)


def quantize_keys(keys: Tensor, bits: int, group: int) -> QuantizedTensor:
    """Quantize unrotated keys, float [kv_heads, tokens, key_dim], per channel in groups along tokens."""
    grouped = _pad_tokens(keys.float(), group)
    codes, scale, zero = _encode(grouped, dim=2, bits=bits)
    codes = codes.flatten(1, 2)[:, : keys.shape[1]]
    return QuantizedTensor(_pack(codes, bits), scale.squeeze(2), zero.squeeze(2))


def quantize_values(values: Tensor, bits: int, group: int) -> QuantizedTensor:
    """Quantize values, float [kv_heads, tokens, value_dim], per token in groups along channels."""
    heads, tokens, dim = values.shape
    if dim % group:
        raise QuantizationRange(f"the value size is no multiple of the quantization group: {dim} by {group}")
    grouped = values.float().reshape(heads, tokens, dim // group, group)
    codes, scale, zero = _encode(grouped, dim=3, bits=bits)
    return QuantizedTensor(_pack(codes.flatten(2), bits), scale.squeeze(3), zero.squeeze(3))


def dequantize_keys(quantized: QuantizedTensor, group_of_token: Tensor, bits: int) -> Tensor:
    """Expand key codes to fp32 [kv_heads, tokens, key_dim].

    ``group_of_token`` int64 [tokens] names each token's row of ``scale`` and ``zero``, so that the codes of many
    chunks, each with its own groups, expand in one call.
    """
    scale = quantized.scale.float().index_select(1, group_of_token)
    zero = quantized.zero.float().index_select(1, group_of_token)
    return _unpack(quantized.codes, bits).mul_(scale).add_(zero)


def dequantize_values(quantized: QuantizedTensor, bits: int) -> Tensor:
    """Expand value codes to fp32 [kv_heads, tokens, value_dim]."""
    codes = _unpack(quantized.codes, bits)
    heads, tokens, dim = codes.shape
    grouped = codes.view(heads, tokens, quantized.scale.shape[2], -1)
    grouped.mul_(quantized.scale.float().unsqueeze(-1)).add_(quantized.zero.float().unsqueeze(-1))
    return grouped.view(heads, tokens, dim)


def token_groups(num_tokens: int, group: int) -> Tensor:
    """The group of each token of one chunk: int64 [num_tokens]."""
    return torch.arange(num_tokens) // group


def _pad_tokens(keys: Tensor, group: int) -> Tensor:
    """[heads, tokens, dim] -> [heads, groups, group, dim]; the last token fills up the last group."""
    heads, tokens, dim = keys.shape
    missing = num_groups(tokens, group) * group - tokens
    padded = torch.cat([keys, keys[:, -1:].expand(heads, missing, dim)], dim=1)
    return padded.view(heads, -1, group, dim)


def _encode(grouped: Tensor, dim: int, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, scale and zero of each group along ``dim``."""
    low, high = grouped.amin(dim, keepdim=True), grouped.amax(dim, keepdim=True)
    zero = _half_below(low)
    scale = (-_half_below(-(high - zero.float()) / (2**bits - 1))).clamp_min_(SMALLEST_HALF)
    if not bool(torch.isfinite(zero).all() and torch.isfinite(scale).all()):
        raise QuantizationRange(f"a key or value exceeds the range of fp16: {grouped.abs().max().item():.4g}")
    codes = torch.round((grouped - zero.float()) / scale.float()).clamp_(0, 2**bits - 1)
    return codes.to(torch.uint8), scale, zero


def _half_below(x: Tensor) -> Tensor:
    """The largest fp16 number not above ``x`` (fp32)."""
    half = x.half()
    return torch.where(half.float() > x, _next_below(half), half)


def _next_below(half: Tensor) -> Tensor:
    """The fp16 number before each one, by its bits: ``torch.nextafter`` knows no fp16 on some devices."""
    bits = half.view(torch.int16)
    below_zero = torch.full_like(bits, -0x7FFF)  # the sign, and the smallest magnitude
    below = torch.where(half > 0, bits - 1, torch.where(half == 0, below_zero, bits + 1))
    return below.view(torch.float16)


def _pack(codes: Tensor, bits: int) -> Tensor:
    if bits == 8:
        return codes.contiguous()
    half = codes.shape[-1] // 2
    return codes[..., :half] | (codes[..., half:] << 4)


def _unpack(codes: Tensor, bits: int) -> Tensor:
    if bits == 8:
        return codes.float()
    return torch.cat([codes & 15, codes >> 4], dim=-1).float()
