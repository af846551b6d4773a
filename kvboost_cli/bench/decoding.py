"""Decoding: with a KV cache and without any, and kvboost's decoder against transformers' ``generate``."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from time import perf_counter

import torch

from ..model.cache import ScatterCache
from ..model.codec import TextCodec
from ..model.decode import decode_tokens, make_sampler
from ..model.forward import adopt_cache, full_prefill
from ..model.handle import ModelHandle
from ..model.load import LoadedModel
from ..model.plain import time_generate, time_without_cache
from .common import describe_model
from .errors import SizeTooLarge
from .intervals import Interval, interval, medians
from .sizes import PromptSize
from .speed_prompts import PASSAGE_TOKENS, cut_texts
from .summary import SEED

CACHE_PROMPT_TOKENS = 250
"""Behind so many tokens it is measured what a cache saves: without one, long prompts take minutes."""


@dataclass(frozen=True)
class DecodePrompts:
    """Token ids of the prompt for what a cache saves, and of one prompt per size."""

    short: list[int]
    sized: list[list[int]]


@dataclass(frozen=True)
class DecodeRequest:
    """Prompts of which lengths, of which folder, and how many tokens to decode after each."""

    docs: Path
    sizes: tuple[PromptSize, ...]
    num_tokens: int
    repeats: int
    seed: int


@dataclass(frozen=True)
class CacheTimes:
    """The same tokens with transformers' own KV cache and without any, prefill included; seconds."""

    prompt_tokens: int
    tokens: int
    with_s: float
    without_s: float

    @property
    def ratio(self) -> float:
        """How many times longer it takes without."""
        return self.without_s / self.with_s


@dataclass(frozen=True)
class StepTimes:
    """Mean seconds of a decoding step behind a prompt, by ``generate`` and by kvboost."""

    prompt_tokens: int
    generate_s: float
    kvboost_s: float


@dataclass(frozen=True)
class StepSummary:
    """Medians over the repeats; ``ratio`` is the median of each repeat's own."""

    prompt_tokens: int
    repeats: int
    generate_s: Interval
    kvboost_s: Interval
    ratio: Interval

    def to_json(self) -> dict[str, object]:
        """As JSON has it: an interval is ``[value, low, high]``."""
        return {
            name: list(astuple(value)) if isinstance(value, Interval) else value for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class DecodeRun:
    """Everything that was measured; ``setup`` has model and machine. ``complete``: it was not interrupted."""

    setup: Mapping[str, object]
    docs: str
    seed: int
    repeats: int
    tokens: int
    seconds: float
    complete: bool
    cache: CacheTimes | None
    steps: tuple[StepTimes, ...]

    @property
    def summaries(self) -> list[StepSummary]:
        """The figures of each prompt length."""
        lengths = dict.fromkeys(step.prompt_tokens for step in self.steps)
        return [_summarize([step for step in self.steps if step.prompt_tokens == length]) for length in lengths]

    def to_json(self) -> dict[str, object]:
        """One object with all of it."""
        facts = asdict(self)
        setup = facts.pop("setup")
        cache = None if self.cache is None else {**asdict(self.cache), "ratio": self.cache.ratio}
        return {**setup, **facts, "cache": cache, "sizes": [summary.to_json() for summary in self.summaries]}


def _summarize(steps: Sequence[StepTimes]) -> StepSummary:
    def middle(figure: Callable[[StepTimes], float]) -> Interval:
        return interval(list(map(figure, steps)), SEED, medians)

    return StepSummary(
        prompt_tokens=steps[0].prompt_tokens,
        repeats=len(steps),
        generate_s=middle(lambda step: step.generate_s),
        kvboost_s=middle(lambda step: step.kvboost_s),
        ratio=middle(lambda step: step.generate_s / step.kvboost_s),
    )


def make_run(
    handle: ModelHandle,
    request: DecodeRequest,
    seconds: float,
    cached: Sequence[CacheTimes],
    steps: Sequence[StepTimes],
    *,
    complete: bool,
) -> DecodeRun:
    """What was measured, with all that it depends on."""
    return DecodeRun(
        setup=describe_model(handle),
        docs=str(request.docs),
        seed=request.seed,
        repeats=request.repeats,
        tokens=request.num_tokens,
        seconds=seconds,
        complete=complete,
        cache=cached[0] if cached else None,
        steps=tuple(steps),
    )


def make_decode_prompts(request: DecodeRequest, codec: TextCodec) -> DecodePrompts:
    """Prompts of documents, one after the other, cut to length.

    Raises ``PathNotFound``, ``TooFewPassages``.
    """
    longest = max(CACHE_PROMPT_TOKENS, *(size.num_tokens for size in request.sizes))
    passages = cut_texts(request.docs, codec, -(-longest // PASSAGE_TOKENS) + 1, request.seed)
    ids = [token for passage in passages for token in codec.token_ids(passage.text)]
    return DecodePrompts(ids[:CACHE_PROMPT_TOKENS], [ids[: size.num_tokens] for size in request.sizes])


def require_decode_room(request: DecodeRequest, handle: ModelHandle) -> None:
    """Raise ``SizeTooLarge`` unless each prompt and the tokens behind it fit the model's context."""
    room = handle.loaded.geometry.max_positions
    for size in request.sizes:
        length = size.num_tokens + request.num_tokens
        if length > room:
            raise SizeTooLarge(
                f"a prompt of the size {size.name} and {request.num_tokens:,} tokens do not fit the model's context of "
                f"{room:,} tokens: {length:,} tokens"
            )


def measure_cache(model: LoadedModel, prompt: Sequence[int], num_tokens: int) -> CacheTimes:
    """Both ways once, which is long enough; each is warmed up by its first step alone."""
    time_generate(model, prompt, 1)
    with_s = time_generate(model, prompt, num_tokens)[-1]
    time_without_cache(model, prompt, 1)
    return CacheTimes(len(prompt), num_tokens, with_s, time_without_cache(model, prompt, num_tokens)[-1])


def measure_steps(
    model: LoadedModel, prompt: Sequence[int], num_tokens: int, repeats: int
) -> Iterator[StepTimes | None]:
    """Decode behind one prompt in turn by ``generate`` and by kvboost; the first turn warms up, and gives None."""
    logits, prefilled = full_prefill(model, torch.tensor([list(prompt)], device=model.device))
    kv = ScatterCache(model.geometry, len(prompt) + num_tokens, model.dtype, model.device)
    adopt_cache(prefilled, kv)
    first_token = int(logits[0, -1].argmax())
    prefilled.crop(-1)  # `generate` computes at least one token of its prompt
    for repeat in range(repeats + 1):
        generate_s = _mean_step(time_generate(model, prompt, num_tokens, copy.deepcopy(prefilled)))
        kvboost_s = _mean_step(time_kvboost(model, kv, first_token, len(prompt), num_tokens))
        yield StepTimes(len(prompt), generate_s, kvboost_s) if repeat else None


def time_kvboost(model: LoadedModel, kv: ScatterCache, first_token: int, position: int, num_tokens: int) -> list[float]:
    """Seconds from the start at which kvboost's decoder knew each token; the first one is given."""
    endless = replace(model, end_tokens=frozenset())
    model.synchronize()
    started = perf_counter()
    tokens = decode_tokens(endless, kv, first_token, position, num_tokens, make_sampler(0.0, None))
    return [perf_counter() - started for _token in tokens]


def _mean_step(instants: Sequence[float]) -> float:
    """Mean seconds between tokens: the first one belongs to the prompt.

    >>> _mean_step([5.0, 5.5, 6.0])
    0.5
    """
    return (instants[-1] - instants[0]) / (len(instants) - 1)
