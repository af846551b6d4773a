"""Question-guided repair (ours): recompute what the question attends to, and the heads of the documents it reads.

A first pass of the tail through the lowest layers records how much each reused token is attended to; a second one
repairs. What matters is the peak: a fact is read by one token of the question, in one head. The tokens around a peak
are repaired with it, since what a token says is spread over its neighbours. The documents that the question looks at
most have their header and first tokens repaired, too: these get little attention but changed the most. docs/fidelity.md
has the measurements behind every constant here.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from ...model.scoring import KeyAttention, score_keys
from ..plan import Hit, Segment, StitchPlan
from .heads import DEFAULT_HEAD_TOKENS, segment_heads
from .task import Repaired, RepairTask, recompute, share_of_content

SCORING_SHARE = 0.25
"""Of the layers, the lowest, that score."""

SPREAD_TOKENS = 7
"""Scores are averaged over so many neighbouring tokens."""

ATTENDED = 0.1
MAX_TOKENS = 128
"""Without ``--ratio``: the tokens around which some head of the question puts more than this share of its attention.

How many those are depends on the question, hardly on the length of the prompt: about as many of 4,000 tokens as of
1,300.
"""


MAX_HEADS = 2
"""Documents whose heads are repaired."""


def question(task: RepairTask) -> Repaired:
    """Recompute the tokens that the question attends to most, and the heads of the documents that it reads most."""
    content = task.plan.positions_with(Hit.CONTENT)
    if not content or task.ratio == 1.0:  # nothing to choose
        return recompute(task, content)
    attention = _read_attention(task)
    places = torch.tensor(content, device=attention.peak.device)
    scores = spread_peaks(attention.peak, places)
    budget = adaptive_budget(scores) if task.ratio is None else share_of_content(task.plan, task.ratio)
    attended = places[scores.argsort(descending=True, stable=True)[:budget]].tolist()
    chosen = {*attended, *segment_heads(_most_read(task.plan, attention.mass), DEFAULT_HEAD_TOKENS)}
    return replace(recompute(task, sorted(chosen)), mass=attention.mass)


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


def spread_peaks(peak: Tensor, places: Tensor) -> Tensor:
    """The peaks, fp32 [keys], of reused ``places``, int64 [reused], averaged over each one's reused neighbours."""
    reused = torch.zeros_like(peak).index_copy_(0, places, peak[places])
    return avg_pool1d(reused[None], SPREAD_TOKENS, stride=1, padding=SPREAD_TOKENS // 2)[0][places]


def adaptive_budget(scores: Tensor) -> int:
    """How many of the ``scores``, fp32 [reused], count as attended to, within the bound."""
    return min(int((scores > ATTENDED).sum()), MAX_TOKENS)
