"""Dequantize, rotate and place a layer in one Triton kernel: stored bytes are read once, the cache is written once.

The reference is ``placing.make_placer``; both agree up to the rounding of fused multiply-adds. Triton comes with
builds of torch for GPUs and is imported with this module, so only who has chosen it may import it.

One program handles one key-value head of one block of a chunk: the tokens of one key group, so that a channel has one
scale and one zero point in it. A table on the device tells each block where its bytes and its places are.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .layout import LayerShape, array_offsets
from .placing import PlaceLayer, Placement

PLAIN_ROWS = 32
"""Tokens of a block of unquantized chunks, which have no groups."""

COLUMNS = 11
"""Of the table: place in the prompt, row of the angles, first token in its chunk, tokens of the block, tokens of the
chunk, and the offsets of the six arrays, counted in their own elements; unquantized chunks have two arrays."""


def make_placer(placement: Placement) -> PlaceLayer:
    """A placer for tensors that the kernel can reach: on a GPU, or anywhere under Triton's interpreter."""
    shape = placement.shapes[0]
    table = torch.tensor(_blocks(placement), dtype=torch.int64, device=placement.cos.device)
    cos, sin = placement.cos.contiguous(), placement.sin.contiguous()
    sizes = kernel_sizes(shape, cos.shape[1])

    def place(staged: Tensor, keys: Tensor, values: Tensor) -> None:
        assert keys.stride(2) == values.stride(2) == 1, "channels lie side by side"
        codes = staged.view(shape.dtype) if shape.bits == 16 else staged
        parameters = codes if shape.bits == 16 else staged.view(torch.float16)
        strides = (keys.stride(0), keys.stride(1), values.stride(0), values.stride(1))
        place_block[(len(table), shape.kv_heads)](codes, parameters, table, cos, sin, keys, values, *strides, **sizes)

    return place


def kernel_sizes(shape: LayerShape, half: int) -> dict[str, int]:
    """What the kernel is compiled for; ``half`` is half the number of channels that turn."""
    rest = shape.key_dim - 2 * half
    return {
        "BITS": shape.bits,
        "ROWS": _rows(shape),
        "GROUP": shape.group,
        "KEY_DIM": shape.key_dim,
        "VALUE_DIM": shape.value_dim,
        "HALF": half,
        "HALF_BLOCK": triton.next_power_of_2(half),
        "REST_BLOCK": triton.next_power_of_2(rest) if rest else 0,
        "VALUE_BLOCK": triton.next_power_of_2(shape.value_dim),
        "COLUMNS": COLUMNS,
    }


def _rows(shape: LayerShape) -> int:
    return PLAIN_ROWS if shape.bits == 16 else shape.group


def _blocks(placement: Placement) -> list[tuple[int, ...]]:
    blocks, start, angle = [], 0, 0
    for shape, places in zip(placement.shapes, placement.places, strict=True):
        offsets = array_offsets(shape)
        sizes = [dtype.itemsize for dtype, _dims in shape.arrays]
        elements = [(start + offset) // size for offset, size in zip(offsets, sizes, strict=True)]
        elements += [0] * (COLUMNS - 5 - len(elements))
        for first in range(0, shape.num_tokens, _rows(shape)):
            rows = min(_rows(shape), shape.num_tokens - first)
            blocks.append((places.start + first, angle + first, first, rows, shape.num_tokens, *elements))
        start += shape.num_bytes
        angle += shape.num_tokens
    return blocks


@triton.jit
def place_block(
    codes, parameters, table, cos, sin, keys, values,
    key_head_stride, key_stride, value_head_stride, value_stride,
    BITS: tl.constexpr, ROWS: tl.constexpr, GROUP: tl.constexpr, KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr,
    HALF: tl.constexpr, HALF_BLOCK: tl.constexpr, REST_BLOCK: tl.constexpr, VALUE_BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """One block of tokens of one key-value head."""
    entry = table + tl.program_id(0).to(tl.int64) * COLUMNS
    head = tl.program_id(1).to(tl.int64)
    rows = tl.arange(0, ROWS)[:, None]
    lines = head * tl.load(entry + 4) + tl.load(entry + 2) + rows  # of arrays [kv_heads, tokens, ...]
    inside = rows < tl.load(entry + 3)
    places = tl.load(entry) + rows
    key_out = keys + head * key_head_stride + places * key_stride
    value_out = values + head * value_head_stride + places * value_stride
    _place_keys(
        codes, parameters, entry, cos, sin, key_out, head, rows, lines, inside,
        BITS, GROUP, KEY_DIM, HALF, HALF_BLOCK, REST_BLOCK,
    )  # fmt: skip
    _place_values(codes, parameters, entry, value_out, lines, inside, BITS, GROUP, VALUE_DIM, VALUE_BLOCK)


@triton.jit
def _place_keys(
    codes, parameters, entry, cos, sin, out, head, rows, lines, inside,
    BITS: tl.constexpr, GROUP: tl.constexpr, KEY_DIM: tl.constexpr,
    HALF: tl.constexpr, HALF_BLOCK: tl.constexpr, REST_BLOCK: tl.constexpr,
):  # fmt: skip
    """The pairs of channels that turn, then those that do not."""
    pairs = tl.arange(0, HALF_BLOCK)[None, :]
    seen = inside & (pairs < HALF)
    angles = (tl.load(entry + 1) + rows) * HALF + pairs
    c, s = tl.load(cos + angles, mask=seen, other=0.0), tl.load(sin + angles, mask=seen, other=0.0)
    first = _read_keys(codes, parameters, entry, head, lines, pairs, seen, BITS, GROUP, KEY_DIM)
    second = _read_keys(codes, parameters, entry, head, lines, pairs + HALF, seen, BITS, GROUP, KEY_DIM)
    dtype = out.dtype.element_ty
    tl.store(out + pairs, (first * c - second * s).to(dtype), mask=seen)
    tl.store(out + pairs + HALF, (second * c + first * s).to(dtype), mask=seen)
    if REST_BLOCK > 0:
        rest = 2 * HALF + tl.arange(0, REST_BLOCK)[None, :]
        seen = inside & (rest < KEY_DIM)
        passed = _read_keys(codes, parameters, entry, head, lines, rest, seen, BITS, GROUP, KEY_DIM)
        tl.store(out + rest, passed.to(dtype), mask=seen)


@triton.jit
def _place_values(
    codes, parameters, entry, out, lines, inside,
    BITS: tl.constexpr, GROUP: tl.constexpr, VALUE_DIM: tl.constexpr, VALUE_BLOCK: tl.constexpr,
):  # fmt: skip
    channels = tl.arange(0, VALUE_BLOCK)[None, :]
    seen = inside & (channels < VALUE_DIM)
    if BITS == 16:
        numbers = _read_codes(codes + tl.load(entry + 6), lines, channels, seen, VALUE_DIM, BITS)
    else:
        numbers = _read_codes(codes + tl.load(entry + 8), lines, channels, seen, VALUE_DIM, BITS)
        groups = lines * (VALUE_DIM // GROUP) + channels // GROUP
        scale = tl.load(parameters + tl.load(entry + 9) + groups, mask=seen, other=0.0)
        zero = tl.load(parameters + tl.load(entry + 10) + groups, mask=seen, other=0.0)
        numbers = numbers * scale.to(tl.float32) + zero.to(tl.float32)
    tl.store(out + channels, numbers.to(out.dtype.element_ty), mask=seen)


@triton.jit
def _read_keys(
    codes, parameters, entry, head, lines, channels, seen,
    BITS: tl.constexpr, GROUP: tl.constexpr, KEY_DIM: tl.constexpr,
):  # fmt: skip
    """Keys of some channels, dequantized to fp32; the whole block has one group."""
    numbers = _read_codes(codes + tl.load(entry + 5), lines, channels, seen, KEY_DIM, BITS)
    if BITS != 16:
        num_groups = (tl.load(entry + 4) + GROUP - 1) // GROUP
        groups = (head * num_groups + tl.load(entry + 2) // GROUP) * KEY_DIM + channels
        known = channels < KEY_DIM
        scale = tl.load(parameters + tl.load(entry + 6) + groups, mask=known, other=0.0)
        zero = tl.load(parameters + tl.load(entry + 7) + groups, mask=known, other=0.0)
        numbers = numbers * scale.to(tl.float32) + zero.to(tl.float32)
    return numbers


@triton.jit
def _read_codes(start, lines, channels, seen, DIM: tl.constexpr, BITS: tl.constexpr):
    """Codes, or at 16 bits the numbers themselves, as fp32."""
    if BITS == 4:
        packed = tl.load(start + lines * (DIM // 2) + channels % (DIM // 2), mask=seen, other=0)
        numbers = tl.where(channels < DIM // 2, packed & 15, packed >> 4)
    else:
        numbers = tl.load(start + lines * DIM + channels, mask=seen, other=0)
    return numbers.to(tl.float32)
