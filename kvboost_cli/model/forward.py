"""One pass of chosen tokens through a model, over a cache that holds the rest of the prompt.

This is the only place that calls a model. transformers renamed the cache argument (``past_key_values`` until 5.17,
``cache`` later); the name is looked up once per model class.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from . import attention
from .cache import ScatterCache
from .errors import ModelUnsupported
from .importing import DynamicCache
from .load import LoadedModel

PrefilledCache = DynamicCache
"""What full prefill leaves: transformers' own cache."""


def forward_tokens(
    model: LoadedModel, token_ids: Tensor, positions: Sequence[int], kv: ScatterCache, num_logits: int = 1
) -> Tensor:
    """Compute tokens at ascending ``positions`` in place and return logits of the last ``num_logits`` of them.

    ``token_ids`` int64 [batch, tokens] on the model's device. Each token sees every key at a position not after
    its own: the stored ones and those of this pass. Returns [batch, num_logits, vocabulary].
    """
    logits: Tensor = _run(model, model.module, token_ids, positions, kv, logits_to_keep=num_logits).logits
    return logits


def write_kv(
    model: LoadedModel,
    token_ids: Tensor,
    positions: Sequence[int],
    kv: ScatterCache,
    recording: object = None,
    cut: int = 0,
) -> None:
    """Like ``forward_tokens``, for the KV alone: the output head does not run.

    A ``recording`` goes to an attention that records what it sees (``scoring``). No block of queries has some before
    ``cut`` and some behind it.
    """
    options = {} if recording is None else {"kvboost_recording": recording}
    _run(model, model.backbone, token_ids, positions, kv, cut, **options)


def full_prefill(model: LoadedModel, token_ids: Tensor) -> tuple[Tensor, PrefilledCache]:
    """The reference: the whole prompt through transformers' own SDPA path and cache, nothing of ours in between.

    ``token_ids`` int64 [1, tokens]. Returns the last position's logits [1, 1, vocabulary] and the cache.
    """
    with attention.switched(model.module, "sdpa"), torch.inference_mode():
        output = model.module(input_ids=token_ids, use_cache=True, logits_to_keep=1)
    return output.logits, output[_cache_argument(model.module)]


def adopt_cache(prefilled: PrefilledCache, kv: ScatterCache) -> None:
    """Copy a full prefill's keys and values into our buffers, to decode from there."""
    for index, (new_keys, new_values, _window) in enumerate(prefilled):
        keys, values = kv.layer_kv(index)
        length = new_keys.shape[2]
        keys[:, :, :length], values[:, :, :length] = new_keys, new_values


def _run(
    model: LoadedModel,
    module: nn.Module,
    token_ids: Tensor,
    positions: Sequence[int],
    kv: ScatterCache,
    cut: int = 0,
    **options: object,
) -> Any:
    kv.write_at(positions)
    rows = torch.tensor(positions, device=model.device)
    plan = attention.plan_attention(positions, kv.capacity, model.geometry.num_folds, model.dtype, model.device, cut)
    with torch.inference_mode():
        return module(
            input_ids=token_ids,
            position_ids=rows[None],
            use_cache=True,
            kvboost_plan=plan,
            **{_cache_argument(module): kv},
            **options,
        )


def _cache_argument(module: nn.Module) -> str:
    return _cache_argument_of(type(module).forward)


@cache
def _cache_argument_of(forward: Callable[..., object]) -> str:
    parameters = inspect.signature(forward).parameters
    for name in ("cache", "past_key_values"):
        if name in parameters:
            return name
    raise ModelUnsupported(f"this model takes no KV cache: {forward.__qualname__}")
