"""One pass that begins with all tokens and goes on with chosen ones: the sparse recompute of CacheBlend.

Yao et al. 2024, "CacheBlend", section 4: the lowest layers run on every token, the deviation of the fresh values
from the stored ones at a probe layer tells which tokens matter, and only those go through the layers above. Here
the mask is exact throughout. The layers above get their rows through forward pre-hooks, so no model code is copied.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from . import attention
from .cache import ScatterCache
from .forward import forward_tokens
from .load import LoadedModel

PROBE_LAYER = 1
"""Layer 0's values never deviate, since they depend on nothing but the token."""

SelectRows = Callable[[Tensor], Sequence[int]]
"""From each row's squared value deviation, fp32 [rows], to the ascending rows to go on with; the last one included."""


def blend_tokens(
    model: LoadedModel, token_ids: Tensor, positions: Sequence[int], kv: ScatterCache, select: SelectRows
) -> Tensor:
    """Compute tokens at ascending ``positions`` up to the probe layer and the selected ones beyond it.

    ``token_ids`` int64 [1, tokens]. Returns the last token's logits [vocabulary].
    """
    places = torch.tensor(positions, device=model.device)
    stored = kv.layer_kv(PROBE_LAYER)[1][:, :, places]  # advanced indexing copies
    with _narrowing(model, positions, places, stored, kv, select):
        return forward_tokens(model, token_ids, positions, kv)[0, -1]


@contextmanager
def _narrowing(
    model: LoadedModel,
    positions: Sequence[int],
    places: Tensor,
    stored: Tensor,
    kv: ScatterCache,
    select: SelectRows,
) -> Iterator[None]:
    narrowed: dict[str, Any] = {}

    def narrow(_layer: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> Any:
        hidden = inputs[0]
        if not narrowed:
            fresh = kv.layer_kv(PROBE_LAYER)[1][:, :, places]
            deviation = (fresh.float() - stored.float()).square().sum((0, 1, 3))
            selected = select(deviation)
            rows, chosen = torch.tensor(selected, device=places.device), [positions[row] for row in selected]
            kv.write_at(chosen, first_layer=PROBE_LAYER + 1)
            narrowed.update(_narrow_options(model, options, rows, chosen, kv.capacity))
            hidden = hidden[:, rows]
        return (hidden, *inputs[1:]), {**options, **narrowed}

    hooks = [layer.register_forward_pre_hook(narrow, with_kwargs=True) for layer in model.layers[PROBE_LAYER + 1 :]]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _narrow_options(
    model: LoadedModel, options: dict[str, Any], rows: Tensor, places: list[int], capacity: int
) -> dict[str, Any]:
    """What the layers are given beside the hidden states, for the chosen rows alone."""
    cos, sin = options["position_embeddings"]
    narrowed: dict[str, Any] = {
        "position_embeddings": (cos[:, rows], sin[:, rows]),
        "kvboost_plan": attention.plan_attention(places, capacity, model.geometry.num_folds, model.dtype, model.device),
    }
    if options.get("position_ids") is not None:
        narrowed["position_ids"] = options["position_ids"][:, rows]
    return narrowed
