"""What every repair strategy is given, what it returns, and the pass that most of them end with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.cache import ScatterCache
from ...model.forward import forward_tokens
from ...model.load import LoadedModel
from ..plan import Hit, StitchPlan


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


@dataclass(frozen=True)
class Repaired:
    """Logits [vocabulary] after the prompt's last token, and the ascending positions that were recomputed.

    ``mass`` is the mean attention that the tail gave each position, fp32 [positions], if the strategy measured it.
    """

    logits: Tensor
    positions: tuple[int, ...]
    mass: Tensor | None = None


RepairStrategy = Callable[[RepairTask], Repaired]


def recompute(task: RepairTask, positions: Sequence[int]) -> Repaired:
    """Compute the given positions, everything without KV and the tail in one pass, since each reads all weights."""
    rows = sorted({*task.plan.fresh_positions(), *positions, *task.plan.tail})
    logits = forward_tokens(task.model, task.pick(rows), rows, task.kv)[0, -1]
    return Repaired(logits, tuple(positions))


def share_of_content(plan: StitchPlan, ratio: float) -> int:
    """How many tokens a share of the reused ones is."""
    return round(ratio * len(plan.positions_with(Hit.CONTENT)))
