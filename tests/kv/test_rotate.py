"""Rotation against complex numbers in double precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvboost_cli.kv.rotate import rotate_keys, unrotate_keys


def inverse_frequencies(rotary_dim: int, theta: float = 10000.0) -> Tensor:
    """float32, as a model keeps them."""
    return 1.0 / theta ** (torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim)


def angles(positions: Tensor, rotary_dim: int) -> tuple[Tensor, Tensor]:
    """cos and sin, fp32 [tokens, rotary_dim / 2], as a model's rotary module makes them."""
    turned = positions.float()[:, None] * inverse_frequencies(rotary_dim)
    return turned.cos(), turned.sin()


def naive_rotation(keys: Tensor, positions: Tensor, rotary_dim: int) -> Tensor:
    """Each pair of channels (i, i + half) as a complex number, multiplied by exp(1j * angle) in float64."""
    half = rotary_dim // 2
    turns = positions.double()[:, None] * inverse_frequencies(rotary_dim).double()
    pairs = torch.complex(keys[..., :half].double(), keys[..., half:rotary_dim].double())
    turned = pairs * torch.polar(torch.ones_like(turns), turns)
    return torch.cat([turned.real, turned.imag, keys[..., rotary_dim:].double()], dim=-1)


def random_keys(tokens: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(2, tokens, dim, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 99), st.integers(1, 20), st.integers(0, 2000), st.sampled_from([(16, 16), (64, 64), (64, 48)]))
def test_keys_turn_like_complex_numbers(seed: int, tokens: int, start: int, dims: tuple[int, int]) -> None:
    key_dim, rotary_dim = dims
    keys, positions = random_keys(tokens, key_dim, seed), torch.arange(start, start + tokens)
    ours = rotate_keys(keys, *angles(positions, rotary_dim))
    # an angle of 2,000 in fp32 is off by up to 2000 * 2**-24 = 1.2e-4, and keys are a few units long
    torch.testing.assert_close(ours.double(), naive_rotation(keys, positions, rotary_dim), atol=1e-3, rtol=0)


def test_far_positions_keep_their_angles() -> None:
    keys, positions = random_keys(4, 64), torch.arange(100_000, 100_004)
    expected = naive_rotation(keys, positions, 64)
    ours = rotate_keys(keys, *angles(positions, 64)).double()
    # fp32 holds 100,000 to 2**-7 / 2 = 4e-3 after its product with a frequency below 1
    torch.testing.assert_close(ours, expected, atol=0.02, rtol=0)
    # angles in 16 bits are garbage here: fp16 ends at 65,504, bf16 goes in steps of 512
    coarse = (positions[:, None] * inverse_frequencies(64)).bfloat16().float()
    assert (rotate_keys(keys, coarse.cos(), coarse.sin()).double() - expected).abs().max().item() > 1.0


@pytest.mark.parametrize("rotary_dim", [32, 24])
@pytest.mark.parametrize("start", [0, 777, 100_000])
def test_turning_back_undoes_the_turn(rotary_dim: int, start: int) -> None:
    keys = random_keys(5, 32)
    cos, sin = angles(torch.arange(start, start + 5), rotary_dim)
    # the same cos and sin both ways: only rounding of fp32 products is left, whatever the angle
    torch.testing.assert_close(unrotate_keys(rotate_keys(keys, cos, sin), cos, sin), keys, atol=2e-6, rtol=0)
    torch.testing.assert_close(rotate_keys(unrotate_keys(keys, cos, sin), cos, sin), keys, atol=2e-6, rtol=0)


def test_two_turns_add_up() -> None:
    keys = random_keys(3, 16)
    first, second = (angles(torch.full((3,), steps), 16) for steps in (20, 35))
    both = angles(torch.full((3,), 55), 16)
    torch.testing.assert_close(rotate_keys(rotate_keys(keys, *first), *second), rotate_keys(keys, *both))


def test_channels_beyond_the_rotary_ones_pass_unchanged() -> None:
    keys = random_keys(6, 40)
    turned = rotate_keys(keys, *angles(torch.arange(6), 24))
    assert torch.equal(turned[..., 24:], keys[..., 24:])
    assert not torch.equal(turned[:, 1:, :24], keys[:, 1:, :24])


def test_position_zero_changes_nothing() -> None:
    keys = random_keys(1, 16)
    assert torch.equal(rotate_keys(keys, *angles(torch.zeros(1), 16)), keys)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_half_precision_keys_are_fp32(dtype: torch.dtype) -> None:
    keys, turn = random_keys(6, 32).to(dtype), angles(torch.arange(900, 906), 32)
    assert torch.equal(rotate_keys(keys, *turn), rotate_keys(keys.float(), *turn))


def test_the_given_keys_are_left_alone() -> None:
    keys = random_keys(6, 32)
    kept = keys.clone()
    rotate_keys(keys, *angles(torch.arange(6), 32))
    assert torch.equal(keys, kept)


def test_a_batch_axis_turns_as_each_of_its_members() -> None:
    keys, turn = torch.randn(3, 2, 5, 16, generator=torch.Generator().manual_seed(1)), angles(torch.arange(5), 16)
    for member, turned in zip(keys, rotate_keys(keys, *turn), strict=True):
        assert torch.equal(turned, rotate_keys(member, *turn))
