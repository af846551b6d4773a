"""Whatever mixture of stored and fresh tokens: with every context token recomputed the logits are full prefill's.

The stores of all but the longrope tests have no exact KV of documents, so that all stored KV is recomputed.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from samples import Desk, ask_and_keep, ask_request, make_text, reference_logits
from tiny_models import ARCHITECTURES, TinyModels
from torch import Tensor

from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.pipelines.asked import named_documents
from kvboost_cli.pipelines.asking import load_stored, start_answer
from kvboost_cli.pipelines.clock import PhaseClock
from kvboost_cli.pipelines.lookup import Prompt, build_prompt
from kvboost_cli.pipelines.plan import Hit, StitchPlan
from kvboost_cli.pipelines.prompt import tail_ids
from kvboost_cli.pipelines.repairs.task import RepairTask, recompute
from kvboost_cli.pipelines.workspace import Workspace

# fp32 in another order of sums; keys near 300 (Qwen2) make that more visible
TOLERANCE = {"atol": 5e-4, "rtol": 0}


def make_prompt(workspace: Workspace, paths: Sequence[Path]) -> Prompt:
    codec = workspace.handle.codec
    frame = codec.frame(None)
    tail = tail_ids(codec, "Which river is it?", frame.closing)
    return build_prompt(codec, frame.preamble, named_documents(workspace, list(map(str, paths))), tail)


def repair_everything(workspace: Workspace, prompt: Prompt) -> tuple[StitchPlan, Tensor]:
    """The plan, and the logits with every reused token recomputed."""
    model = workspace.handle.loaded
    kv = ScatterCache(model.geometry, len(prompt.token_ids), model.dtype, model.device)
    plan, _found, _damaged = load_stored(workspace, prompt, kv, PhaseClock(model.synchronize))
    task = RepairTask(model, prompt.token_ids, plan, kv, None)
    return plan, recompute(task, plan.positions_with(Hit.CONTENT)).logits


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (1, 1, 0)])
def test_documents_in_any_order(desk: Desk, order: tuple[int, ...]) -> None:
    desk.exact = False
    paths = [desk.write(f"{seed}.md", make_text(seed, 1 + seed)) for seed in range(4)]
    desk.index()
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, [paths[place] for place in order])
        plan, logits = repair_everything(workspace, prompt)
        expected = reference_logits(workspace, prompt.token_ids)
    assert {chunk.hit for chunk in plan.chunks} == {Hit.CONTENT}
    torch.testing.assert_close(logits, expected, **TOLERANCE)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "phi3"])
def test_hits_and_misses_mixed_on_every_architecture(tiny_models: TinyModels, tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, tiny_models.path(name), exact=False)
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(3)]
    desk.index(paths[0], paths[2])
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, paths)
        plan, logits = repair_everything(workspace, prompt)
        expected = reference_logits(workspace, prompt.token_ids)
    assert {chunk.hit for chunk in plan.chunks} == {Hit.CONTENT, Hit.MISS}
    torch.testing.assert_close(logits, expected, **TOLERANCE)


def test_a_damaged_record_among_sound_ones(desk: Desk) -> None:
    desk.exact = False
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        key = make_prompt(workspace, [path]).chunks[1].key
    desk.damage(key, 1)
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, [path])
        plan, logits = repair_everything(workspace, prompt)
        expected = reference_logits(workspace, prompt.token_ids)
    assert [chunk.hit for chunk in plan.chunks][:2] == [Hit.CONTENT, Hit.MISS]
    torch.testing.assert_close(logits, expected, **TOLERANCE)


def phi3_desk(tiny_models: TinyModels, tmp_path: Path) -> Desk:
    """Longrope: other factors from 256 tokens on. Encoded alone and unquantized."""
    return Desk(tmp_path, tiny_models.path("phi3"), bits=16, contexts=0)


@pytest.mark.parametrize("num_words", [10, 60, 160])
def test_longrope_with_stored_documents_on_both_sides_of_its_switch(
    tiny_models: TinyModels, tmp_path: Path, num_words: int
) -> None:
    """An indexed document; the preamble was stored by the same index."""
    desk = phi3_desk(tiny_models, tmp_path)
    path = desk.write("a.md", " ".join(["valley"] * num_words) + "\n")
    desk.index()
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, [path])
        _plan, logits = repair_everything(workspace, prompt)
        expected = reference_logits(workspace, prompt.token_ids)
    torch.testing.assert_close(logits, expected, **TOLERANCE)


def test_longrope_with_a_preamble_from_a_shorter_prompt(tiny_models: TinyModels, tmp_path: Path) -> None:
    """Its stored keys are rotated by the short factors."""
    desk = phi3_desk(tiny_models, tmp_path)
    short, long = desk.write("short.md", "river\n"), desk.write("long.md", make_text(1, 3))
    with desk.workspace() as workspace:
        ask_and_keep(workspace, ask_request(short))
        stitched = start_answer(workspace, ask_request(long)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    assert len(stitched.prompt.token_ids) > 256
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


def test_longrope_with_a_miss_before_its_switch_and_a_tail_beyond(tiny_models: TinyModels, tmp_path: Path) -> None:
    """Documents that miss are computed in a pass of their own, which does not reach the prompt's last position."""
    desk = phi3_desk(tiny_models, tmp_path)
    path = desk.write("a.md", make_text(1, 1))
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(path, question="Which river " * 20)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    assert stitched.plan.tail_start < 256 < stitched.plan.num_tokens
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)
