"""Passes over chosen tokens against plain transformers, for every architecture, in fp32.

Prompts of 120 and 330 tokens lie on both sides of the longrope model's switch and of one block of queries.
"""

import pytest
import torch
from tiny_models import ARCHITECTURES, CPU, TinyModels
from torch import Tensor

from kvboost_cli.model.attention import BLOCK_QUERIES
from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.forward import adopt_cache, forward_tokens, full_prefill, write_kv
from kvboost_cli.model.load import LoadedModel

LENGTHS = (120, 330)
# logits are about 6; sums run in another order, and keys near 300 (Qwen2) make its rounding 100 times as visible
TOLERANCE = 5e-4

architectures = pytest.mark.parametrize("name", ARCHITECTURES)
lengths = pytest.mark.parametrize("length", LENGTHS)


def random_ids(length: int, seed: int = 0) -> Tensor:
    """int64 [1, length], without special tokens."""
    return torch.randint(3, 500, (1, length), generator=torch.Generator().manual_seed(seed))


def empty_cache(model: LoadedModel, length: int) -> ScatterCache:
    return ScatterCache(model.geometry, length, model.dtype, model.device)


def prefilled_cache(model: LoadedModel, ids: Tensor) -> ScatterCache:
    kv = empty_cache(model, ids.shape[1])
    adopt_cache(full_prefill(model, ids)[1], kv)
    return kv


def random_positions(length: int, count: int, seed: int = 1) -> list[int]:
    """``count`` ascending positions, the last one among them."""
    order = torch.randperm(length - 1, generator=torch.Generator().manual_seed(seed))
    return sorted([*order[: count - 1].tolist(), length - 1])


def assert_same_cache(kv: ScatterCache, expected: ScatterCache) -> None:
    for ours, theirs in zip(kv.buffers, expected.buffers, strict=True):
        torch.testing.assert_close(ours.keys, theirs.keys, atol=TOLERANCE, rtol=1e-6)
        torch.testing.assert_close(ours.values, theirs.values, atol=TOLERANCE, rtol=1e-6)


def test_the_long_prompt_takes_several_blocks_of_queries() -> None:
    assert LENGTHS[0] < BLOCK_QUERIES < LENGTHS[1]


@architectures
@lengths
def test_all_tokens_at_once_give_the_logits_of_plain_transformers(
    tiny_models: TinyModels, name: str, length: int
) -> None:
    model, ids = tiny_models.load(name), random_ids(length)
    expected = tiny_models.reference(name, ids).logits
    logits = forward_tokens(model, ids, range(length), empty_cache(model, length), num_logits=length)
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)
    reference, _ = full_prefill(model, ids)
    assert reference.shape == (1, 1, expected.shape[-1])
    torch.testing.assert_close(reference[:, -1], expected[:, -1], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "phi3"])
@lengths
def test_a_pass_in_pieces_gives_the_logits_of_one_pass(tiny_models: TinyModels, name: str, length: int) -> None:
    """Longrope is left out: it chooses its factors by the last position of each pass."""
    model, ids = tiny_models.load(name), random_ids(length)
    kv = empty_cache(model, length)
    pieces = []
    for first in range(0, length, 50):
        rows = range(first, min(first + 50, length))
        pieces.append(forward_tokens(model, ids[:, first : rows.stop], rows, kv, num_logits=len(rows)))
    expected = forward_tokens(model, ids, range(length), empty_cache(model, length), num_logits=length)
    torch.testing.assert_close(torch.cat(pieces, dim=1), expected, atol=TOLERANCE, rtol=0)


@architectures
@lengths
@pytest.mark.parametrize("count", [1, 40, 110])
def test_recomputing_some_tokens_of_a_prefilled_cache_changes_nothing(
    tiny_models: TinyModels, name: str, length: int, count: int
) -> None:
    model, ids = tiny_models.load(name), random_ids(length)
    kv, rows = prefilled_cache(model, ids), random_positions(length, count)
    expected = tiny_models.reference(name, ids).logits[:, rows]
    logits = forward_tokens(model, ids[:, rows], rows, kv, num_logits=count)
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)
    assert_same_cache(kv, prefilled_cache(model, ids))


@architectures
@lengths
def test_recomputing_all_tokens_repairs_any_cache(tiny_models: TinyModels, name: str, length: int) -> None:
    model, ids = tiny_models.load(name), random_ids(length)
    kv = empty_cache(model, length)
    for layer in kv.buffers:
        layer.keys.fill_(torch.nan)
        layer.values.fill_(torch.inf)
    logits = forward_tokens(model, ids, range(length), kv)
    torch.testing.assert_close(logits, full_prefill(model, ids)[0], atol=TOLERANCE, rtol=0)
    assert_same_cache(kv, prefilled_cache(model, ids))


def test_a_wrong_key_before_the_pass_shows_in_the_logits(tiny_models: TinyModels) -> None:
    """Else the tests above would prove little."""
    model, ids = tiny_models.load("llama"), random_ids(120)
    kv = prefilled_cache(model, ids)
    expected = forward_tokens(model, ids[:, -1:], [119], kv)
    for layer in kv.buffers:
        layer.keys[:, :, 40:60] = layer.keys[:, :, 60:80].clone()
    assert (forward_tokens(model, ids[:, -1:], [119], kv) - expected).abs().max().item() > TOLERANCE * 100


@architectures
def test_a_repaired_token_does_not_see_what_comes_after_it(tiny_models: TinyModels, name: str) -> None:
    model, ids = tiny_models.load(name), random_ids(200)
    kv = prefilled_cache(model, ids)
    for layer in kv.buffers:
        layer.keys[:, :, 101:] = 50.0
        layer.values[:, :, 101:] = -50.0
    rows = [*range(90, 101, 2), 199]
    logits = forward_tokens(model, ids[:, rows], rows, kv, num_logits=len(rows))[:, :-1]
    expected = tiny_models.reference(name, ids).logits[:, rows[:-1]]
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)


@architectures
def test_the_kv_alone_is_that_of_a_pass_with_logits(tiny_models: TinyModels, name: str) -> None:
    model, ids = tiny_models.load(name), random_ids(120)
    alone, with_head = empty_cache(model, 120), empty_cache(model, 120)
    write_kv(model, ids, range(120), alone)
    forward_tokens(model, ids, range(120), with_head)
    assert all(torch.equal(a.keys, b.keys) for a, b in zip(alone.buffers, with_head.buffers, strict=True))
    assert all(torch.equal(a.values, b.values) for a, b in zip(alone.buffers, with_head.buffers, strict=True))


@architectures
def test_the_adopted_cache_is_transformers_own(tiny_models: TinyModels, name: str) -> None:
    model, ids = tiny_models.load(name), random_ids(60)
    kv = prefilled_cache(model, ids)
    for index, (expected_keys, expected_values) in enumerate(tiny_models.reference(name, ids).layers):
        keys, values = kv.layer_kv(index)
        torch.testing.assert_close(keys[0], expected_keys, atol=TOLERANCE, rtol=1e-6)
        torch.testing.assert_close(values[0], expected_values, atol=TOLERANCE, rtol=1e-6)


def test_a_reference_run_leaves_kvboost_attention_in_place(tiny_models: TinyModels) -> None:
    model, ids = tiny_models.load("llama"), random_ids(40)
    before = forward_tokens(model, ids, range(40), empty_cache(model, 40))
    full_prefill(model, ids)
    assert torch.equal(forward_tokens(model, ids, range(40), empty_cache(model, 40)), before)


def test_a_batch_gives_what_its_rows_give_alone(tiny_models: TinyModels) -> None:
    model = tiny_models.load("llama")
    ids = torch.cat([random_ids(70, 1), random_ids(70, 2), random_ids(70, 3)])
    kv = ScatterCache(model.geometry, 70, model.dtype, CPU, batch=3)
    together = forward_tokens(model, ids, range(70), kv)
    for row in range(3):
        alone = forward_tokens(model, ids[row : row + 1], range(70), empty_cache(model, 70))
        torch.testing.assert_close(together[row : row + 1], alone, atol=TOLERANCE, rtol=0)


def test_a_position_outside_of_the_cache_is_a_programmers_error(tiny_models: TinyModels) -> None:
    model = tiny_models.load("llama")
    with pytest.raises(AssertionError, match="position 10 is outside of the cache's 10"):
        forward_tokens(model, random_ids(1), [10], empty_cache(model, 10))
