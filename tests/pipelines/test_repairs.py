"""The repair strategies that need the model: which tokens they recompute, and that all of them is full prefill."""

from pathlib import Path

import pytest
import torch
from samples import Desk, ask_request, make_text, reference_logits
from tiny_models import TinyModels

from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.finishing import make_report
from kvboost_cli.pipelines.plan import Hit

strategies = pytest.mark.parametrize("repair", ["cacheblend", "question"])


@pytest.fixture
def deep_desk(tiny_models: TinyModels, tmp_path: Path) -> Desk:
    """Four layers, of which two lie above CacheBlend's probe."""
    return Desk(tmp_path, tiny_models.path("llama-deep"))


def indexed(desk: Desk) -> list[Path]:
    """Three documents without exact KV, the second of which is not indexed."""
    desk.exact = False
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(3)]
    desk.index(paths[0], paths[2])
    return paths


@strategies
def test_a_ratio_of_one_gives_full_prefills_logits(deep_desk: Desk, repair: str) -> None:
    paths = indexed(deep_desk)
    with deep_desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(*paths, repair=repair, ratio=1.0)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    assert stitched.num_repaired == len(stitched.plan.positions_with(Hit.CONTENT)) > 500
    # fp32 in another order of sums, logits of about 6
    torch.testing.assert_close(stitched.logits, expected, atol=1e-4, rtol=0)


@strategies
def test_a_few_repairs_come_nearer_to_full_prefill_than_none(deep_desk: Desk, repair: str) -> None:
    paths = indexed(deep_desk)
    with deep_desk.workspace() as workspace:
        stitched = [
            start_answer(workspace, ask_request(*paths, repair=name, ratio=0.5)).stitched for name in ("none", repair)
        ]
        expected = reference_logits(workspace, stitched[0].prompt.token_ids)
    far, near = ((one.logits - expected).abs().mean().item() for one in stitched)
    assert near < far


@strategies
def test_a_share_of_the_reused_tokens_is_repaired_and_counted(deep_desk: Desk, repair: str) -> None:
    paths = indexed(deep_desk)
    with deep_desk.workspace() as workspace:
        request = ask_request(*paths, repair=repair, ratio=0.1)
        answer = start_answer(workspace, request)
        tokens = make_report(workspace, request, answer, None).tokens
    num_content = len(answer.stitched.plan.positions_with(Hit.CONTENT))
    assert 0.1 * num_content - 1 <= tokens.repaired < 0.2 * num_content
    assert tokens.exact + tokens.reused + tokens.repaired + tokens.prefilled == tokens.prompt


@strategies
def test_a_pass_with_hooks_leaves_the_model_as_it_was(deep_desk: Desk, repair: str) -> None:
    paths = indexed(deep_desk)
    with deep_desk.workspace() as workspace:
        before = start_answer(workspace, ask_request(*paths)).stitched.logits
        start_answer(workspace, ask_request(*paths, repair=repair))
        assert torch.equal(start_answer(workspace, ask_request(*paths)).stitched.logits, before)


@strategies
def test_with_nothing_stored_there_is_nothing_to_repair(deep_desk: Desk, repair: str) -> None:
    path = deep_desk.write("a.md", make_text(1, 2))
    with deep_desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(path, repair=repair)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    assert stitched.num_repaired == 0
    torch.testing.assert_close(stitched.logits, expected, atol=1e-4, rtol=0)


@strategies
def test_a_model_of_two_layers_counts_what_it_recomputes(desk: Desk, repair: str) -> None:
    """No layer lies above CacheBlend's probe, so every token is recomputed there."""
    paths = indexed(desk)
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(*paths, repair=repair)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    is_exact = bool((stitched.logits - expected).abs().max() < 1e-4)
    assert is_exact is (stitched.num_repaired == len(stitched.plan.positions_with(Hit.CONTENT)))
