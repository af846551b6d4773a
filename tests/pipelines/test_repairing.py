"""The strategies against naive references: what they choose, and that choosing everything is full prefill."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import Desk, make_text
from tiny_models import TinyModels
from torch import Tensor

from kvboost_cli.model.blend import PROBE_LAYER
from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.load import LoadedModel
from kvboost_cli.pipelines.asked import named_documents
from kvboost_cli.pipelines.asking import load_stored
from kvboost_cli.pipelines.clock import PhaseClock
from kvboost_cli.pipelines.lookup import build_prompt
from kvboost_cli.pipelines.plan import Hit, Segment
from kvboost_cli.pipelines.prompt import tail_ids
from kvboost_cli.pipelines.repairing import REPAIRS
from kvboost_cli.pipelines.repairs.heads import segment_heads
from kvboost_cli.pipelines.repairs.question import (
    ATTENDED,
    HEAD_TOKENS,
    MAX_HEADS,
    MAX_TOKENS,
    adaptive_budget,
    scoring_layers,
)
from kvboost_cli.pipelines.repairs.task import Repaired, RepairTask
from kvboost_cli.pipelines.workspace import Workspace

# fp32 in another order of sums
TOLERANCE = {"atol": 5e-4, "rtol": 0}


def make_task(workspace: Workspace, paths: Sequence[Path], ratio: float | None) -> RepairTask:
    """A prompt with its reused KV in the cache, nothing computed yet."""
    codec, model = workspace.handle.codec, workspace.handle.loaded
    frame = codec.frame(None)
    documents = named_documents(workspace, list(map(str, paths)))
    prompt = build_prompt(codec, frame.preamble, documents, tail_ids(codec, "Which river is it?", frame.closing))
    kv = ScatterCache(model.geometry, len(prompt.token_ids), model.dtype, model.device)
    plan, _found, _damaged = load_stored(workspace, prompt, kv, PhaseClock(model.synchronize))
    return RepairTask(model, prompt.token_ids, plan, kv, ratio)


def attentions(model: LoadedModel, token_ids: Sequence[int]) -> Sequence[Tensor]:
    """transformers' own eager attention probabilities of full prefill: per layer [1, heads, tokens, tokens]."""
    model.module.set_attn_implementation("eager")
    try:
        return model.module(torch.tensor([list(token_ids)]), output_attentions=True).attentions
    finally:
        model.module.set_attn_implementation("kvboost")


@pytest.fixture
def desk(tiny_models: TinyModels, tmp_path: Path) -> Desk:
    """A model of four layers, so that there are some above the probe layer; no exact KV of documents."""
    return Desk(tmp_path, tiny_models.path("llama-deep"), exact=False)


@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_a_document_without_kv_among_reused_ones_is_computed(desk: Desk, name: str) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(2)]
    desk.index(paths[1])
    with desk.workspace() as workspace:
        task = make_task(workspace, paths, ratio=None)
        repaired = REPAIRS[name](task)
        misses = task.plan.positions_with(Hit.MISS)
        expected = workspace.handle.loaded
    assert misses
    assert not set(repaired.positions) & set(misses)
    assert torch.isfinite(repaired.logits).all()
    assert all(torch.isfinite(task.kv.layer_kv(layer)[0]).all() for layer in range(expected.geometry.num_layers))


def test_cacheblend_takes_the_tokens_whose_values_deviate_most_at_the_probe_layer(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        task = make_task(workspace, paths, ratio=0.15)
        stored = task.kv.layer_kv(PROBE_LAYER)[1].clone()
        everything = make_task(workspace, paths, ratio=1.0)
        REPAIRS["selective"](everything)
        fresh = everything.kv.layer_kv(PROBE_LAYER)[1]
        chosen = REPAIRS["cacheblend"](task).positions
    content = torch.tensor(task.plan.positions_with(Hit.CONTENT))
    deviation = (fresh - stored)[0].square().sum((0, 2))[content]
    expected = content[deviation.topk(round(0.15 * len(content))).indices]
    assert list(chosen) == sorted(expected.tolist())


def question_peaks(task: RepairTask) -> tuple[Tensor, Tensor]:
    """What eager attention says the tail looks at: per position the largest and the mean probability.

    With all KV repaired the stitched cache is full prefill's.
    """
    REPAIRS["selective"](make_all(task))
    layers = attentions(task.model, task.token_ids)
    rows, num_scored = torch.tensor(task.plan.tail), scoring_layers(task.model.geometry.num_layers)
    scored = torch.stack([layer[0][:, rows] for layer in layers[:num_scored]])
    return scored.amax((0, 1, 2)), scored.mean((0, 1, 2))


def test_question_takes_the_tokens_that_it_attends_to_most_and_those_behind_them(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        task = make_task(workspace, paths, ratio=0.05)
        peaks, _mass = question_peaks(task)
        repaired = REPAIRS["question"](task)
    content = task.plan.positions_with(Hit.CONTENT)
    reused = {place: peaks[place].item() for place in content}
    near = {place: max(reused.get(place - step, 0.0) for step in range(11)) for place in content}
    heads = segment_heads(most_read(task, repaired), HEAD_TOKENS)
    best = sorted({*content} - {*heads}, key=lambda place: (-near[place], place))[: round(0.05 * len(content))]
    assert list(repaired.positions) == sorted([*best, *heads])


def most_read(task: RepairTask, repaired: Repaired) -> list[Segment]:
    """The documents with reused chunks that have the largest shares of the measured attention."""
    assert repaired.mass is not None
    reused = [segment for segment in task.plan.segments if segment.chunks[0].hit is Hit.CONTENT]
    shares = [float(repaired.mass[list(segment.positions)].sum()) for segment in reused]
    return [reused[place] for place in sorted(range(len(reused)), key=lambda place: -shares[place])[:MAX_HEADS]]


def test_question_repairs_the_heads_of_the_documents_that_it_reads_most_and_no_others(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 1)) for seed in range(MAX_HEADS + 4)]
    desk.index()
    with desk.workspace() as workspace:
        task = make_task(workspace, paths, ratio=0.0)
        repaired = REPAIRS["question"](task)
    assert list(repaired.positions) == sorted(segment_heads(most_read(task, repaired), HEAD_TOKENS))


def test_question_tells_the_mean_attention_to_every_position(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        task = make_task(workspace, paths, ratio=0.05)
        _peaks, mass = question_peaks(task)
        measured = REPAIRS["question"](task).mass
    assert measured is not None
    torch.testing.assert_close(measured, mass, atol=1e-5, rtol=0)  # fp32 in another order of sums
    assert abs(float(measured.sum()) - 1.0) < 1e-4


@given(st.lists(st.integers(0, 64), max_size=400), st.integers(0, 200))
def test_without_a_ratio_every_token_that_is_attended_to_is_taken_up_to_a_bound(
    sixty_fourths: list[int], num_heads: int
) -> None:
    budget = adaptive_budget(torch.tensor(sixty_fourths, dtype=torch.float32) / 64, num_heads)
    assert 0 <= budget <= sum(part / 64 > ATTENDED for part in sixty_fourths)
    assert budget + num_heads <= max(MAX_TOKENS, num_heads)
    assert budget + num_heads >= MAX_TOKENS or budget == sum(part / 64 > ATTENDED for part in sixty_fourths)


def make_all(task: RepairTask) -> RepairTask:
    """The same task with every reused token to be recomputed."""
    return RepairTask(task.model, task.token_ids, task.plan, task.kv, 1.0)
