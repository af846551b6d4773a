"""The main job's model, SmolLM2-135M-Instruct: fp32 to a thousandth, bf16 within bf16's own noise."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_models import CPU
from torch import Tensor

from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.codec import TextCodec
from kvboost_cli.model.decode import decode_tokens, make_sampler
from kvboost_cli.model.forward import adopt_cache, forward_tokens, full_prefill
from kvboost_cli.model.load import LoadedModel, load_model

pytestmark = pytest.mark.model

# the logits are about 20, summed over 30 layers in another order
TOLERANCE = 1e-3
LENGTH = 280


@pytest.fixture(scope="module", autouse=True)
def _two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def fp32(default_model_dir: Path) -> LoadedModel:
    return load_model(default_model_dir, CPU, "float32")


@pytest.fixture(scope="module")
def ids(default_model_dir: Path) -> Tensor:
    """int64 [1, 280]: real English text."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text() * 3
    return torch.tensor([TextCodec(default_model_dir).token_ids(text)[:LENGTH]])


@pytest.fixture(scope="module")
def expected(fp32: LoadedModel, ids: Tensor) -> Tensor:
    """Logits of all positions by transformers' SDPA path, [280, vocabulary]."""
    fp32.module.set_attn_implementation("sdpa")
    with torch.inference_mode():
        logits: Tensor = fp32.module(input_ids=ids).logits[0]
    fp32.module.set_attn_implementation("kvboost")
    return logits


def cache_for(model: LoadedModel, capacity: int) -> ScatterCache:
    return ScatterCache(model.geometry, capacity, model.dtype, model.device)


def mean_kl(expected: Tensor, logits: Tensor) -> float:
    """KL(expected || logits) in nats, mean over positions."""
    p, q = expected.double().log_softmax(-1), logits.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean().item()


def test_all_tokens_at_once_give_full_prefills_logits(fp32: LoadedModel, ids: Tensor, expected: Tensor) -> None:
    logits = forward_tokens(fp32, ids, range(LENGTH), cache_for(fp32, LENGTH), num_logits=LENGTH)[0]
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(full_prefill(fp32, ids)[0][0, -1], expected[-1], atol=TOLERANCE, rtol=0)


def test_a_sparse_pass_over_a_prefilled_cache_changes_nothing(fp32: LoadedModel, ids: Tensor, expected: Tensor) -> None:
    kv = cache_for(fp32, LENGTH)
    adopt_cache(full_prefill(fp32, ids)[1], kv)
    rows = [*range(3, 40), *range(100, LENGTH, 7)]
    logits = forward_tokens(fp32, ids[:, rows], rows, kv, num_logits=len(rows))[0]
    torch.testing.assert_close(logits, expected[rows], atol=TOLERANCE, rtol=0)


def test_greedy_decoding_is_that_of_transformers(fp32: LoadedModel, ids: Tensor) -> None:
    prompt = ids[:, :60]
    fp32.module.set_attn_implementation("sdpa")
    generated = fp32.module.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    fp32.module.set_attn_implementation("kvboost")
    kv = cache_for(fp32, 72)
    first = int(forward_tokens(fp32, prompt, range(60), kv)[0, -1].argmax())
    ours = list(decode_tokens(fp32, kv, first, 60, 12, make_sampler(0.0, None)))
    assert ours == generated[0, 60 : 60 + len(ours)].tolist()
    assert len(ours) == 12 or int(generated[0, 60 + len(ours)]) in fp32.end_tokens


def test_bf16_stays_within_bf16s_own_noise(default_model_dir: Path, ids: Tensor, expected: Tensor) -> None:
    """The yardstick is transformers itself in bf16 against fp32; a second rounding path may add as much again."""
    model = load_model(default_model_dir, CPU, "bfloat16")
    model.module.set_attn_implementation("sdpa")
    with torch.inference_mode():
        noise = mean_kl(expected, model.module(input_ids=ids).logits[0])
    model.module.set_attn_implementation("kvboost")
    kv = cache_for(model, LENGTH)
    ours = forward_tokens(model, ids, range(LENGTH), kv, num_logits=LENGTH)[0]
    assert mean_kl(expected, ours) < 2 * noise
    rows = [*range(3, 40), *range(100, LENGTH, 7)]
    sparse = forward_tokens(model, ids[:, rows], rows, kv, num_logits=len(rows))[0]
    assert mean_kl(expected[rows], sparse) < 2 * noise


def test_the_end_of_a_turn_ends_an_answer(fp32: LoadedModel, default_model_dir: Path) -> None:
    codec = TextCodec(default_model_dir)
    closing = codec.frame(None).closing
    assert fp32.end_tokens == {closing[0]}
    assert codec.text(closing[:1]) == ""
