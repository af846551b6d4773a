"""The repair strategies: from a cache of stored and missing KV to the prompt's logits.

Each strategy is a function of one task. It chooses content hits to recompute, and computes them together with all
that has no KV and the tail. The names are those of ``--repair``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.blend import PROBE_LAYER, blend_tokens
from ..model.cache import ScatterCache
from ..model.forward import forward_tokens
from ..model.load import LoadedModel
from ..model.scoring import score_keys
from .plan import Hit, StitchPlan
from .repair import DEFAULT_HEAD_TOKENS, repair_none, repair_selective, segment_heads

CACHEBLEND_RATIO = 0.15
"""The share that the CacheBlend paper recomputes."""

QUESTION_RATIO = 0.05
"""The share that docs/fidelity.md has figures for."""


@dataclass(frozen=True)
class RepairTask:
    """A prompt whose reused KV is in the cache. ``ratio`` is the share of reused tokens to recompute, or None."""

    model: LoadedModel
    token_ids: Sequence[int]
    plan: StitchPlan
    kv: ScatterCache
    ratio: float | None

    def pick(self, positions: Sequence[int]) -> Tensor:
        """Token ids at positions: int64 [1, positions]."""
        return torch.tensor([[self.token_ids[place] for place in positions]], device=self.model.device)

    def budget(self, default: float) -> int:
        """How many reused tokens to recompute."""
        ratio = default if self.ratio is None else self.ratio
        return round(ratio * len(self.plan.positions_with(Hit.CONTENT)))


@dataclass(frozen=True)
class Repaired:
    """Logits [vocabulary] after the prompt's last token, and the ascending positions that were recomputed."""

    logits: Tensor
    positions: tuple[int, ...]


RepairStrategy = Callable[[RepairTask], Repaired]


def none(task: RepairTask) -> Repaired:
    """Recompute nothing."""
    return recompute(task, repair_none(task.plan, task.ratio))


def selective(task: RepairTask) -> Repaired:
    """Recompute the heads of document segments and what follows seams."""
    return recompute(task, repair_selective(task.plan, task.ratio))


def cacheblend(task: RepairTask) -> Repaired:
    """Run the lowest layers on all tokens, and go on with those whose values deviate most (CacheBlend)."""
    if task.model.geometry.num_layers <= PROBE_LAYER + 1:  # every layer is one that runs on all tokens
        return recompute(task, task.plan.positions_with(Hit.CONTENT))
    exact = set(task.plan.positions_with(Hit.EXACT))
    places = [place for place in range(task.plan.num_tokens) if place not in exact]
    content = set(task.plan.positions_with(Hit.CONTENT))
    is_content = torch.tensor([place in content for place in places], device=task.model.device)
    fresh_rows = [row for row, place in enumerate(places) if place not in content]
    chosen: list[int] = []

    def select(deviation: Tensor) -> list[int]:
        ranked = deviation.masked_fill(~is_content, -1.0).topk(task.budget(CACHEBLEND_RATIO)).indices
        chosen.extend(sorted(ranked.tolist()))
        return sorted([*chosen, *fresh_rows])

    logits = blend_tokens(task.model, task.pick(places), places, task.kv, select)
    return Repaired(logits, tuple(places[row] for row in chosen))


def question(task: RepairTask) -> Repaired:
    """Recompute the tokens that the question attends to most, and the heads of the segments (ours).

    The question pays little attention to a head, whose tokens nevertheless changed the most. A first pass of the tail
    through the lower half of the layers records the attention; a second one repairs.
    """
    content = task.plan.positions_with(Hit.CONTENT)
    budget = task.budget(QUESTION_RATIO)
    if budget in (0, len(content)):  # nothing to choose
        return recompute(task, content[:budget])
    rows = sorted([*task.plan.fresh_positions(), *task.plan.tail])
    num_layers = -(-task.model.geometry.num_layers // 2)
    scores = score_keys(task.model, task.pick(rows), rows, task.kv, num_layers, task.plan.num_tail_tokens)
    places = torch.tensor(content, device=task.model.device)
    attended = places[scores[places].topk(budget).indices].tolist()
    return recompute(task, sorted({*attended, *segment_heads(task.plan, DEFAULT_HEAD_TOKENS)}))


def recompute(task: RepairTask, positions: Sequence[int]) -> Repaired:
    """Compute the given positions, everything without KV and the tail in one pass, since each reads all weights."""
    rows = sorted({*task.plan.fresh_positions(), *positions, *task.plan.tail})
    logits = forward_tokens(task.model, task.pick(rows), rows, task.kv)[0, -1]
    return Repaired(logits, tuple(positions))


REPAIRS: dict[str, RepairStrategy] = {
    "none": none,
    "selective": selective,
    "cacheblend": cacheblend,
    "question": question,
}
"""By the name that ``--repair`` takes and reports show."""

DEFAULT_RATIOS = {"cacheblend": CACHEBLEND_RATIO, "question": QUESTION_RATIO}

AUTO = "selective"
"""What ``--repair auto`` stands for: the best by measurement, see docs/fidelity.md."""


def effective_name(name: str) -> str:
    """The strategy behind a name: ``effective_name("auto") == "selective"``."""
    return AUTO if name == "auto" else name


def default_ratio(name: str) -> float | None:
    """The share that a strategy recomputes without ``--ratio``; None if it does not go by a share."""
    return DEFAULT_RATIOS.get(name)
