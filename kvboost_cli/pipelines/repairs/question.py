"""Question-guided repair (ours): recompute what the question attends to, and the heads of the documents it reads.

A first pass of the tail through the lowest layers records how much each reused token is attended to; a second one
repairs. What matters is the peak: a fact is read by one token of the question, in one head. The question looks at the
words that it shares with a document; what it wants to know stands behind them, and is read by the answer. So the tokens
behind a peak are repaired with it. The documents that the question looks at most have their header and first tokens
repaired, too: these get little attention but changed the most. docs/fidelity.md has the measurements behind every
constant here.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, pad

from ...model.scoring import KeyAttention, score_keys
from ..plan import Hit, Segment, StitchPlan
from .heads import segment_heads
from .task import Repaired, RepairTask, recompute, share_of_content

SCORING_SHARE = 0.25
"""Of the layers, the lowest, that score."""

REACH = 10
"""So many tokens behind one that the question looks at are repaired with it."""

ATTENDED = 0.2
MAX_TOKENS = 88
"""Without ``--ratio``: the tokens on which some head of the question puts more than this share of its attention, with
those within reach; so many at most, heads of documents included.

How many those are depends on the question, hardly on the length of the prompt.
"""

MAX_HEADS = 2
HEAD_TOKENS = 4
"""Of so many documents, the header and so many tokens behind it are repaired."""


def question(task: RepairTask) -> Repaired:
    """Recompute the tokens that the question attends to most, and the heads of the documents that it reads most."""
    content = task.plan.positions_with(Hit.CONTENT)
    if not content or task.ratio == 1.0:  # nothing to choose
        return recompute(task, content)
    attention = _read_attention(task)
    places = torch.tensor(content, device=attention.peak.device)
    heads = segment_heads(_most_read(task.plan, attention.mass), HEAD_TOKENS)
    scores = reach_of_peaks(attention.peak, places)
    scores[torch.isin(places, torch.tensor(heads, device=places.device))] = 0.0  # they are repaired anyhow
    budget = adaptive_budget(scores, len(heads)) if task.ratio is None else share_of_content(task.plan, task.ratio)
    attended = places[scores.argsort(descending=True, stable=True)[:budget]].tolist()
    return replace(recompute(task, sorted({*attended, *heads})), mass=attention.mass)


def _most_read(plan: StitchPlan, mass: Tensor) -> list[Segment]:
    """The documents with reused chunks that got the most attention; ``mass`` is fp32 [positions]."""
    reused = [segment for segment in plan.segments if any(chunk.hit is Hit.CONTENT for chunk in segment.chunks)]
    return sorted(reused, key=lambda segment: -float(mass[segment.positions].sum()))[:MAX_HEADS]


def _read_attention(task: RepairTask) -> KeyAttention:
    rows = sorted([*task.plan.fresh_positions(), *task.plan.tail])
    num_layers = scoring_layers(task.model.geometry.num_layers)
    return score_keys(task.model, task.pick(rows), rows, task.kv, num_layers, task.plan.num_tail_tokens)


def scoring_layers(num_layers: int) -> int:
    """How many layers score: ``scoring_layers(30) == 8``."""
    return math.ceil(num_layers * SCORING_SHARE)


def reach_of_peaks(peak: Tensor, places: Tensor) -> Tensor:
    """For each of the reused ``places``, int64 [reused]: the largest ``peak``, fp32 [keys], that reaches it."""
    reused = torch.zeros_like(peak).index_copy_(0, places, peak[places])
    return max_pool1d(pad(reused[None], (REACH, 0)), REACH + 1, stride=1)[0][places]


def adaptive_budget(scores: Tensor, num_heads: int) -> int:
    """How many of the ``scores``, fp32 [reused], count as attended to, within the bound less the tokens of heads."""
    return min(int((scores > ATTENDED).sum()), max(MAX_TOKENS - num_heads, 0))
