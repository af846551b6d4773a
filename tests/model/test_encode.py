"""Encoding behind prefixes and moving the keys: a stretch's KV equals the one that is computed at its new place."""

import pytest
import torch
from tiny_models import ARCHITECTURES, LONG_FROM, TinyModels
from torch import Tensor

from kvboost_cli.kv.rotate import rotate_keys
from kvboost_cli.model.encode import EncodeWindow, LayerKV, PrefixKV, encode_prefix, encode_windows
from kvboost_cli.model.load import LoadedModel

# fp32 has steps of 3e-5 at the length of Qwen2's biased pairs of channels, 424, and keys turn three times.
KEY_TOLERANCE = {"atol": 1e-4, "rtol": 1e-6}

architectures = pytest.mark.parametrize("name", ARCHITECTURES)


def random_tokens(count: int, seed: int) -> tuple[int, ...]:
    return tuple(torch.randint(3, 500, (count,), generator=torch.Generator().manual_seed(seed)).tolist())


def encode_one(model: LoadedModel, window: EncodeWindow, prefixes: list[PrefixKV]) -> list[LayerKV]:
    """Per layer keys and values of a single window."""
    return [layer[0] for layer in encode_windows(model, [window], [prefixes])]


def placed(model: LoadedModel, keys: Tensor, start: int, num_positions: int) -> Tensor:
    """Unrotated keys [kv_heads, tokens, key_dim] turned to ``start`` and on, in a prompt of ``num_positions``."""
    cos, sin = model.rotary_angles(num_positions)
    rows = slice(start, start + keys.shape[1])
    return rotate_keys(keys, cos[rows], sin[rows])


def naive_unrotated(model: LoadedModel, keys: Tensor, num_positions: int) -> Tensor:
    """Rotated keys of positions 0, 1, ... as complex numbers, turned back in float64."""
    cos, sin = (part[: keys.shape[1]].double() for part in model.rotary_angles(num_positions))
    half = cos.shape[-1]
    turned = torch.complex(keys[..., :half].double(), keys[..., half : 2 * half].double())
    plain = turned * torch.complex(cos, -sin)
    return torch.cat([plain.real, plain.imag, keys[..., 2 * half :].double()], dim=-1)


@architectures
@pytest.mark.parametrize("start", [0, 160, 500, 4000])
def test_first_layer_keys_moved_to_a_place_are_those_computed_there(
    tiny_models: TinyModels, name: str, start: int
) -> None:
    """They depend on token and position alone, so what stands before does not matter."""
    model, stretch = tiny_models.load(name), random_tokens(40, 1)
    keys, values = encode_one(model, EncodeWindow((), stretch), [encode_prefix(model, random_tokens(23, 2))])[0]
    reference = tiny_models.reference(name, torch.tensor([stretch]), torch.arange(start, start + 40)[None])
    torch.testing.assert_close(placed(model, keys, start, start + 40), reference.layers[0][0], **KEY_TOLERANCE)
    torch.testing.assert_close(values, reference.layers[0][1], **KEY_TOLERANCE)


@architectures
def test_keys_of_every_layer_moved_with_their_context_are_those_computed_there(
    tiny_models: TinyModels, name: str
) -> None:
    """The same context at shifted positions, through plain transformers with explicit ``position_ids``."""
    model, prefix, stretch = tiny_models.load(name), random_tokens(20, 1), random_tokens(50, 2)
    layers = encode_one(model, EncodeWindow((), stretch), [encode_prefix(model, prefix)])
    shift = 150
    ids, positions = torch.tensor([[*prefix, *stretch]]), torch.arange(shift, shift + 70)
    reference = tiny_models.reference(name, ids, positions[None])
    assert shift + 70 < LONG_FROM, "both runs lie on the same side of the longrope model's switch"
    for (keys, values), (expected_keys, expected_values) in zip(layers, reference.layers, strict=True):
        moved = placed(model, keys, shift + 20, shift + 70)
        # deeper layers add up rounding: hidden states of another rotation differ by some 1e-6
        torch.testing.assert_close(moved, expected_keys[:, 20:], atol=2e-4, rtol=1e-5)
        torch.testing.assert_close(values, expected_values[:, 20:], atol=2e-4, rtol=1e-5)


@architectures
@pytest.mark.parametrize("length", [0, 1, 300])
def test_a_prefix_is_kept_exactly(tiny_models: TinyModels, name: str, length: int) -> None:
    model, tokens = tiny_models.load(name), random_tokens(length, 4)
    prefix = encode_prefix(model, tokens)
    assert prefix.num_tokens == length
    if not length:
        assert prefix.layers == ()
        return
    reference = tiny_models.reference(name, torch.tensor([tokens]))
    for (keys, values), (expected_keys, expected_values) in zip(prefix.layers, reference.layers, strict=True):
        torch.testing.assert_close(keys, expected_keys, atol=2e-4, rtol=1e-5)
        torch.testing.assert_close(values, expected_values, atol=2e-4, rtol=1e-5)


@architectures
def test_only_the_kept_tokens_come_back_and_they_saw_prefix_and_context(tiny_models: TinyModels, name: str) -> None:
    model = tiny_models.load(name)
    prefix, context, kept = random_tokens(10, 1), random_tokens(15, 2), random_tokens(30, 3)
    layers = encode_one(model, EncodeWindow(context, kept), [encode_prefix(model, prefix)])
    reference = tiny_models.reference(name, torch.tensor([[*prefix, *context, *kept]]))
    for (keys, values), (expected_keys, expected_values) in zip(layers, reference.layers, strict=True):
        expected = naive_unrotated(model, expected_keys, 55)[:, 25:]
        torch.testing.assert_close(keys.double(), expected, atol=2e-4, rtol=1e-5)
        torch.testing.assert_close(values, expected_values[:, 25:], atol=2e-4, rtol=1e-5)


@architectures
def test_averaging_over_contexts_is_the_mean_of_unrotated_keys_and_of_values(
    tiny_models: TinyModels, name: str
) -> None:
    model, kept = tiny_models.load(name), random_tokens(30, 3)
    prefixes = [random_tokens(12, seed) for seed in (7, 8, 9)]
    layers = encode_one(model, EncodeWindow((), kept), [encode_prefix(model, prefix) for prefix in prefixes])
    runs = [tiny_models.reference(name, torch.tensor([[*prefix, *kept]])) for prefix in prefixes]
    for index, (keys, values) in enumerate(layers):
        plain = [naive_unrotated(model, run.layers[index][0], 42)[:, 12:] for run in runs]
        torch.testing.assert_close(keys.double(), sum(plain) / 3, atol=2e-4, rtol=1e-5)
        expected = sum(run.layers[index][1][:, 12:].double() for run in runs) / 3
        torch.testing.assert_close(values.double(), expected, atol=2e-4, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("num_contexts", [1, 2])
def test_windows_of_different_length_in_a_batch_give_what_each_gives_alone(
    tiny_models: TinyModels, name: str, num_contexts: int
) -> None:
    model = tiny_models.load(name)
    sizes = [(0, 40), (25, 61), (9, 1), (0, 300)]
    windows = [
        EncodeWindow(random_tokens(context, 10 + context), random_tokens(kept, 20 + kept)) for context, kept in sizes
    ]
    prefixes = [
        [encode_prefix(model, random_tokens(16, 100 * row + n)) for n in range(num_contexts)] for row in range(4)
    ]
    together = list(encode_windows(model, windows, prefixes))
    for row, window in enumerate(windows):
        alone = encode_one(model, window, prefixes[row])
        for layer, (keys, values) in enumerate(alone):
            torch.testing.assert_close(together[layer][row][0], keys, atol=2e-4, rtol=1e-5)
            torch.testing.assert_close(together[layer][row][1], values, atol=2e-4, rtol=1e-5)


def test_prefixes_of_different_length_are_a_programmers_error(tiny_models: TinyModels) -> None:
    model = tiny_models.load("llama")
    prefixes = [encode_prefix(model, random_tokens(count, 1)) for count in (3, 4)]
    with pytest.raises(AssertionError, match="prefixes differ in length"):
        list(encode_windows(model, [EncodeWindow((), (5, 6))], [prefixes]))


def test_fp32_is_what_an_encoder_of_a_bf16_model_returns(tiny_models: TinyModels) -> None:
    from kvboost_cli.model.load import load_model

    model = load_model(tiny_models.path("llama"), torch.device("cpu"), "bfloat16")
    keys, values = encode_one(model, EncodeWindow((), (5, 6, 7)), [encode_prefix(model, (8, 9))])[0]
    assert (keys.dtype, values.dtype) == (torch.float32, torch.float32)
