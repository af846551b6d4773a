"""Decoding through the preallocated cache against transformers' own ``generate``, and sampling."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from tiny_models import ARCHITECTURES, TinyModels

from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.decode import Sampler, decode_tokens, make_sampler
from kvboost_cli.model.forward import forward_tokens
from kvboost_cli.model.load import LoadedModel


def answer(model: LoadedModel, prompt: list[int], max_tokens: int, sample: Sampler) -> list[int]:
    kv = ScatterCache(model.geometry, len(prompt) + max_tokens, model.dtype, model.device)
    logits = forward_tokens(model, torch.tensor([prompt]), range(len(prompt)), kv)
    return list(decode_tokens(model, kv, sample(logits[0, -1]), len(prompt), max_tokens, sample))


def random_prompt(length: int, seed: int = 0) -> list[int]:
    return torch.randint(3, 500, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_decoding_is_that_of_transformers(tiny_models: TinyModels, name: str) -> None:
    model, prompt = replace(tiny_models.load(name), end_tokens=frozenset()), random_prompt(50)
    expected, ids = [], list(prompt)
    for _step in range(12):
        ids.append(int(tiny_models.reference(name, torch.tensor([ids])).logits[0, -1].argmax()))
        expected.append(ids[-1])
    assert answer(model, prompt, 12, make_sampler(0.0, None)) == expected


def test_an_end_token_ends_the_answer_and_is_not_part_of_it(tiny_models: TinyModels) -> None:
    model = tiny_models.load("llama")
    endless = answer(replace(model, end_tokens=frozenset()), random_prompt(30), 10, make_sampler(0.0, None))
    ended = replace(model, end_tokens=frozenset({endless[6]}))
    assert answer(ended, random_prompt(30), 10, make_sampler(0.0, None)) == endless[: endless.index(endless[6])]
    at_once = replace(model, end_tokens=frozenset({endless[0]}))
    assert answer(at_once, random_prompt(30), 10, make_sampler(0.0, None)) == []


def test_an_answer_is_never_longer_than_asked(tiny_models: TinyModels) -> None:
    model = replace(tiny_models.load("llama"), end_tokens=frozenset())
    whole = answer(model, random_prompt(30), 9, make_sampler(0.0, None))
    assert [len(whole), *(answer(model, random_prompt(30), n, make_sampler(0.0, None)) == whole[:n] for n in (1, 5))]
    assert answer(model, random_prompt(30), 0, make_sampler(0.0, None)) == []


def test_a_seed_makes_sampling_reproducible(tiny_models: TinyModels) -> None:
    model = replace(tiny_models.load("llama"), end_tokens=frozenset())
    first, again, other = (answer(model, random_prompt(30), 16, make_sampler(1.0, seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_sampling_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    make_sampler(1.0, 7)(torch.zeros(10))
    make_sampler(1.0, None)(torch.zeros(10))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_are_spread_as_the_softmax_says(temperature: float) -> None:
    logits, sample, count = torch.tensor([0.0, 1.0, 2.0, -50.0]), make_sampler(temperature, 3), 4000
    drawn = Counter(sample(logits) for _ in range(count))
    expected = torch.softmax(logits / temperature, 0).tolist()
    # four standard deviations of a binomial share are at most 4 * 0.5 / sqrt(4000) = 0.032
    assert all(abs(drawn[token] / count - share) < 0.032 for token, share in enumerate(expected))


def test_greedy_takes_the_largest_logit() -> None:
    assert make_sampler(0.0, 5)(torch.tensor([1.0, 3.0, 2.0])) == 1
