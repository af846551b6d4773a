"""From logits to tokens: sampling and the decoding loop. Knows nothing of text, printing or clocks."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .cache import ScatterCache
from .forward import forward_tokens
from .load import LoadedModel

Sampler = Callable[[Tensor], int]
"""Chooses a token id from logits [vocabulary]."""


def make_sampler(temperature: float, seed: int | None) -> Sampler:
    """Greedy at temperature 0, else sampling from ``softmax(logits / temperature)`` with its own generator."""
    if temperature == 0:
        return lambda logits: int(logits.argmax())
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)

    def sample(logits: Tensor) -> int:
        probabilities = torch.softmax(logits.float().cpu() / temperature, dim=-1)
        return int(torch.multinomial(probabilities, 1, generator=generator))

    return sample


def decode_tokens(
    model: LoadedModel, kv: ScatterCache, first_token: int, position: int, max_tokens: int, sample: Sampler
) -> Iterator[int]:
    """Yield the answer's tokens, the given first one included, each written into the cache in place.

    ``position`` is the first token's. Ends before an end token or after ``max_tokens`` tokens,
    for which the cache must have room.
    """
    token = first_token
    for step in range(max_tokens):
        if token in model.end_tokens:
            return
        yield token
        if step + 1 == max_tokens:
            return
        ids = torch.tensor([[token]], device=model.device)
        logits = forward_tokens(model, ids, [position + step], kv)
        token = sample(logits[0, -1])
