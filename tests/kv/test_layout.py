"""A layer as bytes and back: every width, every shape, and bytes of the wrong length."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvboost_cli.kv.errors import LayoutMismatch
from kvboost_cli.kv.layout import ALIGNMENT_BYTES, LayerShape, encode_layer, view_layer
from kvboost_cli.kv.quantize import quantize_keys, quantize_values

DTYPES = st.sampled_from([torch.bfloat16, torch.float16, torch.float32])


def random_layer(shape: LayerShape, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(shape.kv_heads, shape.num_tokens, shape.key_dim, generator=generator)
    return keys, torch.randn(shape.kv_heads, shape.num_tokens, shape.value_dim, generator=generator)


def as_buffer(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def expected_arrays(keys: Tensor, values: Tensor, shape: LayerShape) -> list[Tensor]:
    if shape.bits == 16:
        return [keys.to(shape.dtype), values.to(shape.dtype)]
    k, v = quantize_keys(keys, shape.bits, shape.group), quantize_values(values, shape.bits, shape.group)
    return [k.codes, k.scale, k.zero, v.codes, v.scale, v.zero]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3), st.integers(1, 70), st.sampled_from([16, 48]), st.sampled_from([16, 32]),
    st.sampled_from([4, 8, 16]), st.sampled_from([8, 16]), DTYPES,
)  # fmt: skip
def test_a_layer_comes_back_array_by_array(
    heads: int, tokens: int, key_dim: int, value_dim: int, bits: int, group: int, dtype: torch.dtype
) -> None:
    shape = LayerShape(heads, tokens, key_dim, value_dim, bits, group, dtype)
    keys, values = random_layer(shape)
    data = encode_layer(keys, values, shape)
    assert len(data) == shape.num_bytes
    views = view_layer(as_buffer(data), shape)
    for view, expected in zip(views, expected_arrays(keys, values, shape), strict=True):
        assert view.dtype == expected.dtype
        assert torch.equal(view, expected)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_arrays_stand_in_the_documented_order_at_multiples_of_sixteen(bits: int) -> None:
    shape = LayerShape(1, 5, 24, 8, bits, 8, torch.bfloat16)
    keys, values = random_layer(shape)
    data, offset = encode_layer(keys, values, shape), 0
    for array in expected_arrays(keys, values, shape):
        raw = bytes(array.contiguous().view(torch.uint8).flatten().tolist())
        assert data[offset : offset + len(raw)] == raw
        padded = -(-len(raw) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        assert not any(data[offset + len(raw) : offset + padded])
        offset += padded
    assert offset == len(data)


def test_views_share_the_memory_of_their_buffer() -> None:
    shape = LayerShape(2, 3, 16, 16, 8, 8, torch.float32)
    buffer = as_buffer(encode_layer(*random_layer(shape), shape))
    start, end = buffer.data_ptr(), buffer.data_ptr() + buffer.numel()
    assert all(start <= view.data_ptr() < end for view in view_layer(buffer, shape))


def test_a_view_of_keys_that_are_not_contiguous_is_laid_out_like_a_copy() -> None:
    shape = LayerShape(2, 6, 16, 16, 16, 8, torch.float32)
    keys, values = random_layer(shape)
    turned = keys.transpose(0, 1).contiguous().transpose(0, 1)
    assert not turned.is_contiguous()
    assert encode_layer(turned, values, shape) == encode_layer(keys, values, shape)


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("change", [-1, 1, 16])
def test_bytes_of_another_length_are_refused(bits: int, change: int) -> None:
    shape = LayerShape(2, 9, 32, 16, bits, 16, torch.bfloat16)
    buffer = torch.zeros(shape.num_bytes + change, dtype=torch.uint8)
    with pytest.raises(LayoutMismatch, match=f"{shape.num_bytes} bytes was expected, got: {buffer.numel()}"):
        view_layer(buffer, shape)


def test_fewer_bits_take_fewer_bytes() -> None:
    shape = LayerShape(3, 256, 64, 64, 16, 32, torch.bfloat16)
    sizes = [replace(shape, bits=bits).num_bytes for bits in (4, 8, 16)]
    assert sizes[2] == 3 * 256 * 128 * 2
    # a group of 32 shares four bytes of scale and zero: an eighth of a byte for each number
    assert [size / sizes[2] for size in sizes[:2]] == [(1 / 2 + 1 / 8) / 2, (1 + 1 / 8) / 2]
