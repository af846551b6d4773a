"""Quantization: how large the error may be, which axis a group runs along, and what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvboost_cli.kv.errors import QuantizationRange
from kvboost_cli.kv.quantize import (
    QuantizedTensor,
    dequantize_keys,
    dequantize_values,
    num_groups,
    quantize_keys,
    quantize_values,
    token_groups,
)

FP32_EPS = torch.finfo(torch.float32).eps
GROUPS = st.sampled_from([8, 16, 32])
BITS = st.sampled_from([4, 8])
# The zero point of a group far from 0 costs nothing but the fp32 rounding of `zero + scale * code`.
SCALES = st.sampled_from([1e-6, 1e-3, 1.0, 40.0])
BIASES = st.sampled_from([0.0, 1e-6, -3.0, 300.0, -5000.0])


def random_tensor(seed: int, heads: int, tokens: int, dim: int, scale: float, bias: float) -> Tensor:
    """[heads, tokens, dim]; every channel has a constant bias of its own."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.randn(heads, 1, dim, generator=generator) * bias
    return torch.randn(heads, tokens, dim, generator=generator) * scale + offsets


def restored_keys(quantized: QuantizedTensor, tokens: int, bits: int, group: int) -> Tensor:
    return dequantize_keys(quantized, token_groups(tokens, group), bits)


def assert_within_half_a_step(original: Tensor, restored: Tensor, step: Tensor, zero: Tensor) -> None:
    """Half a step, plus a few roundings of fp32: of ``x - zero``, of the quotient and of ``zero + scale * code``."""
    rounding = 4 * FP32_EPS * (zero.abs() + original.abs())
    assert bool(((original.double() - restored.double()).abs() <= step / 2 + rounding).all())


def naive_half_below(x: float) -> float:
    half = torch.tensor(x, dtype=torch.float64).half()
    if half.double().item() > x:
        half = torch.nextafter(half, torch.tensor(-math.inf, dtype=torch.float16))
    return half.double().item()


def test_a_zero_point_is_the_fp16_number_below_for_every_fp16_number() -> None:
    halves = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    halves = halves[halves.isfinite() & (halves > -65504)]
    just_below = torch.nextafter(halves.float(), torch.tensor(-torch.inf))
    zero = quantize_values(just_below[None, :, None].expand(1, -1, 8), bits=8, group=8).zero.flatten()
    assert torch.equal(zero, torch.nextafter(halves, torch.tensor(-torch.inf, dtype=torch.float16)))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 70), GROUPS, BITS, SCALES, BIASES)
def test_a_key_is_restored_to_half_a_step(
    seed: int, heads: int, tokens: int, group: int, bits: int, scale: float, bias: float
) -> None:
    keys = random_tensor(seed, heads, tokens, 16, scale, bias)
    quantized = quantize_keys(keys, bits, group)
    of_token = torch.arange(tokens) // group
    step, zero = (part.double()[:, of_token] for part in (quantized.scale, quantized.zero))
    assert_within_half_a_step(keys, restored_keys(quantized, tokens, bits, group), step, zero)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 40), GROUPS, BITS, SCALES, BIASES)
def test_a_value_is_restored_to_half_a_step(
    seed: int, heads: int, tokens: int, group: int, bits: int, scale: float, bias: float
) -> None:
    values = random_tensor(seed, heads, tokens, 64, scale, bias)
    quantized = quantize_values(values, bits, group)
    step, zero = (part.double().repeat_interleave(group, 2) for part in (quantized.scale, quantized.zero))
    assert_within_half_a_step(values, dequantize_values(quantized, bits), step, zero)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 99), st.integers(1, 40), BITS, SCALES, BIASES)
def test_a_step_is_hardly_larger_than_the_range_of_its_group_asks_for(
    seed: int, tokens: int, bits: int, scale: float, bias: float
) -> None:
    keys = random_tensor(seed, 2, tokens, 8, scale, bias)
    quantized = quantize_keys(keys, bits, group=32)
    for index, part in enumerate(keys.split(32, dim=1)):
        lowest = part.amin(1).double()
        zero = quantized.zero[:, index].double()
        needed = (part.amax(1).double() - zero) / (2**bits - 1)
        # fp16 has 11 significant bits, and 2**-24 is the smallest number that it holds
        assert bool((quantized.scale[:, index].double() <= needed * (1 + 2**-10) + 2**-24).all())
        assert bool((zero <= lowest).all())
        assert bool((lowest - zero <= lowest.abs() * 2**-10 + 2**-24).all())


def test_parameters_are_those_of_a_naive_loop() -> None:
    keys = random_tensor(1, 1, 7, 4, 1.0, 2.0)
    quantized = quantize_keys(keys, 8, group=4)
    for first, row in ((0, 0), (4, 1)):
        for channel in range(4):
            members = keys[0, first : first + 4, channel].double()
            zero = naive_half_below(members.min().item())
            step = -naive_half_below(-(members.max().item() - zero) / 255)
            assert quantized.zero[0, row, channel].item() == zero
            assert quantized.scale[0, row, channel].item() == step
            codes = ((members - zero) / step).round()
            assert torch.equal(quantized.codes[0, first : first + 4, channel].double(), codes)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("constant", [0.0, 1.0, 300.1, -1e-6, 1e-9, 65504.0])
def test_a_constant_group_is_restored_almost_exactly(bits: int, constant: float) -> None:
    keys = torch.full((1, 32, 32), constant)
    # zero is within one fp16 step below the constant, and 2**bits - 1 steps of the scale bridge that gap
    allowed = (abs(constant) * 2**-10 + 2**-24) / (2**bits - 1) + 2**-24
    for restored in (
        restored_keys(quantize_keys(keys, bits, 32), 32, bits, 32),
        dequantize_values(quantize_values(keys, bits, 32), bits),
    ):
        assert (restored - keys).abs().max().item() <= allowed


@pytest.mark.parametrize("bits", [4, 8])
def test_a_huge_constant_bias_in_a_channel_costs_no_precision(bits: int) -> None:
    """Qwen2's ``k_proj``: values near 300 with a range of 1."""
    plain = torch.rand(2, 64, 32, generator=torch.Generator().manual_seed(5))
    biased = plain.clone()
    biased[:, :, 3] += 300.0
    biased[:, :, 7] -= 300.0
    quantized = quantize_keys(biased, bits, 32)
    error = (restored_keys(quantized, 64, bits, 32) - biased).abs()
    # the range grows by what fp16 cannot say of the zero point: 0.25 at 300
    assert error.max().item() <= (1 + 0.25) / (2**bits - 1) / 2 * (1 + 2**-10) + 300 * 4 * FP32_EPS
    others = [channel for channel in range(32) if channel not in (3, 7)]
    unbiased = restored_keys(quantize_keys(plain, bits, 32), 64, bits, 32)
    assert torch.equal(restored_keys(quantized, 64, bits, 32)[..., others], unbiased[..., others])


@pytest.mark.parametrize("bits", [4, 8])
def test_tiny_keys_and_values_do_not_vanish_into_a_coarse_step(bits: int) -> None:
    tiny = random_tensor(3, 2, 32, 32, 1e-6, 0.0)
    # below 2**-14 fp16 has a fixed step of 2**-24, 6e-8: that is the best a scale can be
    keys = restored_keys(quantize_keys(tiny, bits, 32), 32, bits, 32)
    values = dequantize_values(quantize_values(tiny, bits, 32), bits)
    for restored in (keys, values):
        spread = (tiny.max() - tiny.min()).item()
        assert (restored - tiny).abs().max().item() <= (spread + 2**-24) / (2**bits - 1) / 2 + 2**-24


def test_keys_are_grouped_per_channel_along_tokens() -> None:
    """Channels of very different size: a group along channels would drown the small ones."""
    sizes = torch.logspace(-3, 3, 16)
    keys = torch.rand(1, 32, 16, generator=torch.Generator().manual_seed(2)) * sizes
    error = (restored_keys(quantize_keys(keys, 8, 16), 32, 8, 16) - keys).abs().amax((0, 1))
    assert bool((error <= sizes / 255).all())
    assert quantize_keys(keys, 8, 16).scale.shape == (1, 2, 16)


def test_values_are_grouped_per_token_along_channels() -> None:
    """Tokens of very different size: a group along tokens would drown the small ones."""
    sizes = torch.logspace(-3, 3, 32)[:, None]
    values = torch.rand(1, 32, 16, generator=torch.Generator().manual_seed(2)) * sizes
    error = (dequantize_values(quantize_values(values, 8, 16), 8) - values).abs().amax((0, 2))
    assert bool((error <= sizes[:, 0] / 255).all())
    assert quantize_values(values, 8, 8).scale.shape == (1, 32, 2)


@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 65])
def test_the_last_short_group_of_keys_has_its_own_parameters(tokens: int) -> None:
    keys = random_tensor(4, 2, tokens, 8, 1.0, 0.0)
    first_of_last = (tokens - 1) // 32 * 32
    keys[:, first_of_last:] *= 1e-3
    whole = quantize_keys(keys, 8, 32)
    last = quantize_keys(keys[:, first_of_last:], 8, 32)
    assert whole.scale.shape[1] == num_groups(tokens, 32) == -(-tokens // 32)
    assert torch.equal(whole.scale[:, -1], last.scale[:, 0])
    assert torch.equal(whole.zero[:, -1], last.zero[:, 0])
    assert torch.equal(whole.codes[:, first_of_last:], last.codes)


def test_four_bit_codes_lie_two_to_a_byte_the_first_half_low() -> None:
    ramp = torch.arange(16.0)
    values = torch.stack([ramp, ramp.flip(0)])[None]
    codes = quantize_values(values, 4, 16).codes
    assert codes.shape == (1, 2, 8)
    assert codes[0, 0].tolist() == [low + 16 * (low + 8) for low in range(8)]
    assert codes[0, 1].tolist() == [15 - low + 16 * (7 - low) for low in range(8)]
    assert torch.equal(dequantize_values(quantize_values(values, 4, 16), 4), values)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("bad", [-7e4, 2e7, math.inf, -math.inf, math.nan])
def test_what_fp16_parameters_cannot_express_is_refused(bits: int, bad: float) -> None:
    tensor = torch.zeros(1, 32, 32)
    tensor[0, 5, 5] = bad
    with pytest.raises(QuantizationRange, match="exceeds the range of fp16"):
        quantize_keys(tensor, bits, 32)
    with pytest.raises(QuantizationRange, match="exceeds the range of fp16"):
        quantize_values(tensor, bits, 32)


def test_values_that_no_whole_group_covers_are_refused() -> None:
    with pytest.raises(QuantizationRange, match="no multiple of the quantization group: 48 by 32"):
        quantize_values(torch.zeros(1, 2, 48), 8, 32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_input_is_quantized_like_its_fp32_copy(dtype: torch.dtype) -> None:
    keys = random_tensor(6, 2, 40, 32, 1.0, 3.0).to(dtype)
    for one, other in (
        (quantize_keys(keys, 4, 32), quantize_keys(keys.float(), 4, 32)),
        (quantize_values(keys, 4, 32), quantize_values(keys.float(), 4, 32)),
    ):
        assert all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("codes", "scale", "zero"))
