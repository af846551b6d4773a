"""SelectiveRecompute: the heads of segments, or nothing at all. The plan alone decides."""

from .heads import choose_heads
from .task import Repaired, RepairTask, recompute


def none(task: RepairTask) -> Repaired:
    """Recompute nothing: rotation is all that happens to reused keys."""
    return recompute(task, [])


def selective(task: RepairTask) -> Repaired:
    """Recompute the heads of document segments and what follows seams."""
    return recompute(task, choose_heads(task.plan, task.ratio))
