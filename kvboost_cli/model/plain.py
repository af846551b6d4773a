"""Decoding as plain transformers does it, with its cache and without any: what ours is measured against."""

import inspect
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from transformers.generation.streamers import BaseStreamer

from . import attention
from .forward import PrefilledCache
from .importing import GenerationConfig
from .load import LoadedModel

NO_TOKEN = -1
"""As the end token: generation goes on to its limit."""


class _Stopwatch(BaseStreamer):
    """When each new token was known; the prompt is put first."""

    def __init__(self) -> None:
        self.instants: list[float] = []

    def put(self, _value: Tensor) -> None:
        """A token is on the host."""
        self.instants.append(perf_counter())

    def end(self) -> None:
        """Nothing is held back."""


def time_generate(
    model: LoadedModel, token_ids: Sequence[int], num_tokens: int, prefilled: PrefilledCache | None = None
) -> list[float]:
    """Seconds from the start at which transformers' ``generate`` knew each of ``num_tokens`` greedy tokens.

    The first one takes the prompt's prefill, of which ``prefilled`` holds a beginning, and is extended.
    """
    stopwatch = _Stopwatch()
    config = GenerationConfig(do_sample=False, max_new_tokens=num_tokens, eos_token_id=NO_TOKEN, pad_token_id=0)
    module: Any = model.module
    options = {} if prefilled is None else {_cache_argument(module): prefilled}
    ids = torch.tensor([list(token_ids)], device=model.device)
    model.synchronize()
    started = perf_counter()
    with attention.switched(module, "sdpa"):
        module.generate(
            ids, attention_mask=torch.ones_like(ids), generation_config=config, streamer=stopwatch, **options
        )
    return [instant - started for instant in stopwatch.instants[1:]]


def _cache_argument(module: Any) -> str:
    """What ``generate`` calls its cache: as the model does (see ``forward``)."""
    parameters = inspect.signature(type(module).forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"


def time_without_cache(model: LoadedModel, token_ids: Sequence[int], num_tokens: int) -> list[float]:
    """The same with nothing kept: each token takes a pass of all tokens before it."""
    ids = torch.tensor([list(token_ids)], device=model.device)
    instants = []
    model.synchronize()
    started = perf_counter()
    with attention.switched(model.module, "sdpa"), torch.inference_mode():
        for _ in range(num_tokens):
            logits = model.module(input_ids=ids, use_cache=False, logits_to_keep=1).logits
            token = int(logits[0, -1].argmax())
            instants.append(perf_counter() - started)
            ids = torch.cat([ids, torch.tensor([[token]], device=model.device)], dim=1)
    return instants
