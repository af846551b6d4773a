"""Many chunks of one layer at once, against each chunk by itself in plain loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvboost_cli.kv.expand import expand_layer, groups_of_chunks
from kvboost_cli.kv.layout import LayerShape, encode_layer, view_layer

HEADS, KEY_DIM, VALUE_DIM, GROUP = 2, 32, 16, 8


def shape_of(num_tokens: int, bits: int) -> LayerShape:
    return LayerShape(HEADS, num_tokens, KEY_DIM, VALUE_DIM, bits, GROUP, torch.bfloat16)


def stored_arrays(num_tokens: int, bits: int, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(HEADS, num_tokens, KEY_DIM, generator=generator) + 5
    values = torch.randn(HEADS, num_tokens, VALUE_DIM, generator=generator)
    data = bytearray(encode_layer(keys, values, shape_of(num_tokens, bits)))
    return view_layer(torch.frombuffer(data, dtype=torch.uint8), shape_of(num_tokens, bits))


def naive_codes(codes: Tensor, bits: int) -> Tensor:
    if bits == 8:
        return codes.double()
    low, high = codes % 16, codes // 16
    return torch.cat([low, high], dim=-1).double()


def naive_layer(arrays: tuple[Tensor, ...], bits: int) -> tuple[Tensor, Tensor]:
    """One chunk dequantized number by number in float64."""
    if bits == 16:
        return arrays[0].double(), arrays[1].double()
    keys, values = naive_codes(arrays[0], bits), naive_codes(arrays[3], bits)
    for head in range(HEADS):
        for token in range(keys.shape[1]):
            scale, zero = arrays[1][head, token // GROUP].double(), arrays[2][head, token // GROUP].double()
            keys[head, token] = zero + scale * keys[head, token]
            for channel in range(VALUE_DIM):
                scale, zero = (part[head, token, channel // GROUP].double() for part in (arrays[4], arrays[5]))
                values[head, token, channel] = zero + scale * values[head, token, channel]
    return keys, values


def naive_rotation(keys: Tensor, turns: Tensor) -> Tensor:
    half = KEY_DIM // 2
    turned = torch.complex(keys[..., :half], keys[..., half:]) * torch.polar(torch.ones_like(turns), turns)
    return torch.cat([turned.real, turned.imag], dim=-1)


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("lengths", [(5,), (8, 3, 20), (1, 1, 17, 8)])
def test_chunks_expand_together_as_each_would_alone(bits: int, lengths: tuple[int, ...]) -> None:
    chunks = [stored_arrays(length, bits, seed) for seed, length in enumerate(lengths)]
    generator = torch.Generator().manual_seed(9)
    turns = torch.rand(sum(lengths), KEY_DIM // 2, generator=generator, dtype=torch.float64) * 6
    groups = groups_of_chunks(lengths, GROUP)
    keys, values = expand_layer(chunks, groups, turns.cos().float(), turns.sin().float(), bits)
    alone = [naive_layer(chunk, bits) for chunk in chunks]
    expected_keys = naive_rotation(torch.cat([one for one, _ in alone], dim=1), turns)
    # keys are near 5: a handful of fp32 roundings
    torch.testing.assert_close(keys.double(), expected_keys, atol=1e-5, rtol=0)
    torch.testing.assert_close(values.double(), torch.cat([one for _, one in alone], dim=1), atol=1e-5, rtol=0)


def test_groups_start_anew_with_each_chunk() -> None:
    assert groups_of_chunks([3, 2], 2).tolist() == [0, 0, 1, 2, 2]


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.sampled_from([1, 8, 32]))
def test_no_group_spans_two_chunks_or_more_than_its_size(lengths: list[int], group: int) -> None:
    groups = groups_of_chunks(lengths, group).tolist()
    expected, number = [], 0
    for length in lengths:
        for token in range(length):
            number += 1 if token % group == 0 else 0
            expected.append(number - 1)
    assert groups == expected


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_the_stored_arrays_are_not_changed(bits: int) -> None:
    chunk = stored_arrays(9, bits, 0)
    kept = [array.clone() for array in chunk]
    angles = torch.zeros(9, KEY_DIM // 2)
    expand_layer([chunk], groups_of_chunks([9], GROUP), angles.cos(), angles.sin(), bits)
    assert all(torch.equal(array, before) for array, before in zip(chunk, kept, strict=True))
