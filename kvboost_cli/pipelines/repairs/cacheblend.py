"""CacheBlendRecompute: the lowest layers on all tokens, and those whose values deviate most through the layers above.

Yao et al. 2024, "CacheBlend". The mask is exact here: the published code lets chosen tokens see later keys.
"""

import torch
from torch import Tensor

from ...model.blend import PROBE_LAYER, blend_tokens
from ..plan import Hit
from .task import Repaired, RepairTask, recompute, share_of_content

DEFAULT_RATIO = 0.15
"""The share that the CacheBlend paper recomputes."""


def cacheblend(task: RepairTask) -> Repaired:
    """Recompute the tokens whose values deviate most at the probe layer."""
    content = set(task.plan.positions_with(Hit.CONTENT))
    if not content or task.model.geometry.num_layers <= PROBE_LAYER + 1:  # or every layer runs on all tokens
        return recompute(task, sorted(content))
    budget = share_of_content(task.plan, DEFAULT_RATIO if task.ratio is None else task.ratio)
    exact = set(task.plan.positions_with(Hit.EXACT))
    places = [place for place in range(task.plan.num_tokens) if place not in exact]
    is_content = torch.tensor([place in content for place in places], device=task.model.device)
    fresh_rows = [row for row, place in enumerate(places) if place not in content]
    chosen: list[int] = []

    def select(deviation: Tensor) -> list[int]:
        ranked = deviation.masked_fill(~is_content, -1.0).topk(budget).indices
        chosen.extend(sorted(ranked.tolist()))
        return sorted([*chosen, *fresh_rows])

    logits = blend_tokens(task.model, task.pick(places), places, task.kv, select)
    return Repaired(logits, tuple(places[row] for row in chosen))
