"""One layer of one chunk as bytes, and back.

A quantized layer is six arrays, each at an offset that is a multiple of 16 bytes, in this order: key codes,
key scale, key zero, value codes, value scale, value zero. An unquantized layer (16 bits) is two: keys, values.
Arrays are contiguous and little-endian. The offsets follow from the shape alone, so nothing else is stored.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from .errors import LayoutMismatch
from .quantize import num_groups, quantize_keys, quantize_values

ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class LayerShape:
    """What decides the bytes of a chunk's layer; ``dtype`` is the model's and counts only at 16 bits."""

    kv_heads: int
    num_tokens: int
    key_dim: int
    value_dim: int
    bits: int
    group: int
    dtype: torch.dtype

    @property
    def arrays(self) -> tuple[tuple[torch.dtype, tuple[int, ...]], ...]:
        """Dtype and shape of each array, in stored order."""
        heads, tokens = self.kv_heads, self.num_tokens
        if self.bits == 16:
            return (
                (self.dtype, (heads, tokens, self.key_dim)),
                (self.dtype, (heads, tokens, self.value_dim)),
            )
        packing = 8 // self.bits
        key_groups = (heads, num_groups(tokens, self.group), self.key_dim)
        value_groups = (heads, tokens, self.value_dim // self.group)
        return (
            (torch.uint8, (heads, tokens, self.key_dim // packing)),
            (torch.float16, key_groups),
            (torch.float16, key_groups),
            (torch.uint8, (heads, tokens, self.value_dim // packing)),
            (torch.float16, value_groups),
            (torch.float16, value_groups),
        )

    @property
    def num_bytes(self) -> int:
        """Length of the layer's bytes, padding included."""
        return sum(_aligned(_num_bytes(dtype, shape)) for dtype, shape in self.arrays)


def encode_layer(keys: Tensor, values: Tensor, shape: LayerShape) -> bytes:
    """Quantize unrotated keys [kv_heads, tokens, key_dim] and values of one layer, and lay them out as bytes."""
    laid = torch.zeros(shape.num_bytes, dtype=torch.uint8, device=keys.device)
    for place, array in zip(view_layer(laid, shape), _arrays(keys, values, shape), strict=True):
        place.copy_(array)
    return laid.cpu().numpy().tobytes()


def view_layer(buffer: Tensor, shape: LayerShape) -> tuple[Tensor, ...]:
    """The arrays of a layer as views of ``buffer``, uint8 [num_bytes], without a copy.

    The buffer must start at a multiple of 16 bytes. Raises ``LayoutMismatch`` when its length is not the shape's.
    """
    if buffer.numel() != shape.num_bytes:
        raise LayoutMismatch(f"a layer of {shape.num_bytes} bytes was expected, got: {buffer.numel()}")
    views = []
    for (dtype, dims), offset in zip(shape.arrays, array_offsets(shape), strict=True):
        views.append(buffer[offset : offset + _num_bytes(dtype, dims)].view(dtype).view(dims))
    return tuple(views)


def array_offsets(shape: LayerShape) -> tuple[int, ...]:
    """Where each array of a layer begins in its bytes."""
    lengths = [_aligned(_num_bytes(dtype, dims)) for dtype, dims in shape.arrays]
    return tuple(accumulate(lengths[:-1], initial=0))


def _arrays(keys: Tensor, values: Tensor, shape: LayerShape) -> Sequence[Tensor]:
    if shape.bits == 16:
        return keys.to(shape.dtype), values.to(shape.dtype)
    k, v = quantize_keys(keys, shape.bits, shape.group), quantize_values(values, shape.bits, shape.group)
    return k.codes, k.scale, k.zero, v.codes, v.scale, v.zero


def _num_bytes(dtype: torch.dtype, shape: Sequence[int]) -> int:
    return dtype.itemsize * math.prod(shape)


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
