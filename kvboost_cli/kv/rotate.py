"""Rotary position embedding (RoPE) applied to stored keys.

Half-split convention, as in transformers' ``rotate_half``: channel ``i`` and channel ``i + rotary_dim / 2``
form a pair that turns by ``position * inv_freq[i]`` (Su et al. 2021, "RoFormer", section 3.2.2). Channels
beyond ``rotary_dim`` (partial rotary) pass unchanged. Angles and products are fp32; the cast comes last.
"""

import torch
from torch import Tensor


def rotate_keys(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn keys forward to their positions.

    ``keys`` [..., tokens, key_dim] of any float dtype; ``cos`` and ``sin`` fp32 [tokens, rotary_dim / 2].
    Returns fp32 [..., tokens, key_dim].
    """
    half = cos.shape[-1]
    keys = keys.float()
    first, second = keys[..., :half], keys[..., half : 2 * half]
    out = torch.empty_like(keys)
    torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-1.0)
    torch.mul(second, cos, out=out[..., half : 2 * half]).addcmul_(first, sin)
    if keys.shape[-1] > 2 * half:
        out[..., 2 * half :] = keys[..., 2 * half :]
    return out


def unrotate_keys(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn keys back from their positions to none: the inverse of ``rotate_keys``, same shapes."""
    return rotate_keys(keys, cos, -sin)
