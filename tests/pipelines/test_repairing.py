"""The strategies against naive references: what they choose, and that choosing everything is full prefill."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
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
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.prompt import tail_ids
from kvboost_cli.pipelines.repair import DEFAULT_HEAD_TOKENS, segment_heads
from kvboost_cli.pipelines.repairing import REPAIRS, RepairTask
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
    """A model of four layers, so that there are some above the probe layer."""
    return Desk(tmp_path, tiny_models.path("llama-deep"))


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


def test_question_takes_the_tokens_that_the_question_attends_to_most(desk: Desk) -> None:
    """With all KV repaired first, the stitched cache is full prefill's, so eager attention is the reference."""
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        task = make_task(workspace, paths, ratio=0.05)
        REPAIRS["selective"](make_all(task))
        chosen = REPAIRS["question"](task).positions
        layers = attentions(task.model, task.token_ids)
    rows = torch.tensor(task.plan.tail)
    num_scored = -(-task.model.geometry.num_layers // 2)
    scores = torch.stack([layer[0][:, rows].amax((0, 1)) for layer in layers[:num_scored]]).amax(0)
    content = torch.tensor(task.plan.positions_with(Hit.CONTENT))
    attended = content[scores[content].topk(round(0.05 * len(content))).indices].tolist()
    assert list(chosen) == sorted({*attended, *segment_heads(task.plan, DEFAULT_HEAD_TOKENS)})


def make_all(task: RepairTask) -> RepairTask:
    """The same task with every reused token to be recomputed."""
    return RepairTask(task.model, task.token_ids, task.plan, task.kv, 1.0)
