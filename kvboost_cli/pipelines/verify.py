"""``--verify``: the same token ids through full prefill, and how far the stitched prompt is from it.

KL divergence is KL(full prefill || stitched) in nats per token, teacher-forced over full prefill's own greedy
continuation, its end token included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ..model.cache import ScatterCache
from ..model.codec import TextCodec
from ..model.decode import decode_tokens, make_sampler
from ..model.forward import adopt_cache, forward_tokens, full_prefill
from ..model.load import LoadedModel
from .report import Verification

BLOCK_TOKENS = 32
"""Continuation tokens compared at once: bounds the logits in memory."""


@dataclass(frozen=True)
class Reference:
    """Full prefill of a prompt: its cache, the first logits [vocabulary], its greedy answer and its time."""

    kv: ScatterCache
    logits: Tensor
    token_ids: tuple[int, ...]
    ttft_s: float


@dataclass(frozen=True)
class Divergence:
    """Of each step of the continuation, the first token's first: KL in nats, whether the top tokens are the same,
    and the largest difference between two logits."""

    kl: tuple[float, ...]
    agrees: tuple[bool, ...]
    logit_differences: tuple[float, ...]


def compute_reference(model: LoadedModel, prompt_ids: Sequence[int], max_tokens: int) -> Reference:
    """Full prefill, run once to warm up and once for the clock, then greedy decoding."""
    full_prefill(model, torch.tensor([list(prompt_ids)], device=model.device))
    return prefill_reference(model, prompt_ids, max_tokens)


def prefill_reference(model: LoadedModel, prompt_ids: Sequence[int], max_tokens: int) -> Reference:
    """The same without warming up: its time may hold what happens once."""
    ids = torch.tensor([list(prompt_ids)], device=model.device)
    model.synchronize()
    started = perf_counter()
    logits, prefilled = full_prefill(model, ids)
    first_token = int(logits[0, -1].argmax())
    ttft_s = perf_counter() - started
    kv = ScatterCache(model.geometry, len(prompt_ids) + max_tokens, model.dtype, model.device)
    adopt_cache(prefilled, kv)
    tokens = decode_tokens(model, kv, first_token, len(prompt_ids), max_tokens, make_sampler(0.0, None))
    return Reference(kv, logits[0, -1], tuple(tokens), ttft_s)


def measure_divergence(
    model: LoadedModel, reference: Reference, kv: ScatterCache, logits: Tensor, num_prompt_tokens: int, max_tokens: int
) -> Divergence:
    """Compare a stitched cache, whose first logits are given, with the reference along its continuation.

    Overwrites both caches behind the prompt.
    """
    steps = [_compare(reference.logits[None], logits[None])]
    ended = len(reference.token_ids) < max_tokens
    fed = reference.token_ids if ended else reference.token_ids[:-1]
    for positions, ids in _blocks(fed, num_prompt_tokens, model):
        expected = forward_tokens(model, ids, positions, reference.kv, num_logits=len(positions))[0]
        actual = forward_tokens(model, ids, positions, kv, num_logits=len(positions))[0]
        steps.append(_compare(expected, actual))
    kl, agrees, differences = (torch.cat(part) for part in zip(*steps, strict=True))
    return Divergence(tuple(kl.tolist()), tuple(agrees.tolist()), tuple(differences.tolist()))


def summarize(
    codec: TextCodec, reference: Reference, divergence: Divergence, answer_ids: Sequence[int], ttft_s: float
) -> Verification:
    """The figures that ``--verify`` reports."""
    return Verification(
        reference_ttft_s=reference.ttft_s,
        speedup=reference.ttft_s / ttft_s,
        kl_first=divergence.kl[0],
        kl_mean=sum(divergence.kl) / len(divergence.kl),
        top1_agreement=sum(divergence.agrees) / len(divergence.agrees),
        matched_prefix=_matched_prefix(reference.token_ids, answer_ids),
        reference_answer=codec.text(reference.token_ids),
    )


def _blocks(token_ids: Sequence[int], start: int, model: LoadedModel) -> Iterator[tuple[range, Tensor]]:
    for first in range(0, len(token_ids), BLOCK_TOKENS):
        block = list(token_ids[first : first + BLOCK_TOKENS])
        yield range(start + first, start + first + len(block)), torch.tensor([block], device=model.device)


def _compare(expected: Tensor, actual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """KL, top-1 agreement and the largest difference per row of logits [rows, vocabulary]."""
    p, q = expected.float().log_softmax(-1), actual.float().log_softmax(-1)
    kl = (p.exp() * (p - q)).sum(-1).clamp_min(0.0)
    differences = (expected.float() - actual.float()).abs().amax(-1)
    return kl.cpu(), (expected.argmax(-1) == actual.argmax(-1)).cpu(), differences.cpu()


def _matched_prefix(expected: Sequence[int], actual: Sequence[int]) -> int:
    pairs = enumerate(zip(expected, actual, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(expected), len(actual)))
