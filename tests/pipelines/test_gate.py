"""The fidelity gate: models that work pass, models whose KV cannot be moved fail, and it is told which fault it is."""

import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hidden_window import hide_window, take_window_away
from samples import Desk, ask_request, make_text, reference_logits
from tiny_models import ARCHITECTURES, CONFIGS, TinyModels, make_model, save_tokenizer
from torch import Tensor
from transformers.models.llama import modeling_llama

from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.model.load import LoadedModel
from kvboost_cli.pipelines import gate
from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.errors import FidelityNotMeasured, ProbesRefused
from kvboost_cli.pipelines.gate import (
    MAX_MACHINERY_KL,
    MAX_REUSE_KL,
    Figures,
    find_machinery_fault,
    find_reuse_fault,
    gate_key,
    measure_fidelity,
)
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.recipe import make_recipe

RECIPE = make_recipe(None, None, 16)
PASSED = Figures(0.0, 0.0, 4.0, 0.05, 0.1, 0.9)


def make_handle(model_dir: Path, cache_dir: Path, dtype: str = "float32") -> ModelHandle:
    return ModelHandle(model_dir.name, model_dir, "cpu", dtype, cache_dir)


def interleaved(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """Rotary positions that turn neighbouring channels, as Cohere's models do, and not the two halves of a head."""
    half = cos.shape[-1] // 2
    cos, sin = (part[..., :half].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim) for part in (cos, sin))

    def turned(x: Tensor) -> Tensor:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


class WrongBase(LoadedModel):
    """A model whose stored keys are turned by another base than its own passes use."""

    BASE = 1000.0

    def rotary_angles(self, num_positions: int) -> tuple[Tensor, Tensor]:
        size = self.geometry.key_dim
        frequencies = self.BASE ** (-torch.arange(0, size, 2) / size)
        angles = torch.arange(num_positions)[:, None] * frequencies
        return angles.cos(), angles.sin()


def with_wrong_base(handle: ModelHandle) -> ModelHandle:
    facts = {field.name: getattr(handle.loaded, field.name) for field in fields(LoadedModel)}
    handle.__dict__["loaded"] = WrongBase(**facts)
    return handle


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_supported_architecture_passes(tiny_models: TinyModels, tmp_path: Path, name: str) -> None:
    result = measure_fidelity(make_handle(tiny_models.path(name), tmp_path), RECIPE)
    assert (result.passed, result.reason, result.machinery_passed) == (True, None, True)
    assert result.kl_mean is not None
    assert result.machinery_max_logit_diff is not None
    assert result.machinery_max_logit_diff < 1e-3 < result.kl_mean, "all computed again is exact, reuse is not"
    assert result.seconds > 0


@pytest.mark.parametrize(("bits", "contexts"), [(4, 2), (16, 0)])
def test_other_recipes_pass_each_by_itself(tiny_models: TinyModels, tmp_path: Path, bits: int, contexts: int) -> None:
    recipe = make_recipe(bits, contexts, 16)
    handle = make_handle(tiny_models.path("llama"), tmp_path)
    result = measure_fidelity(handle, recipe)
    assert result.passed
    assert result.recipe == recipe.digest.hex()
    assert gate_key(handle, recipe) != gate_key(handle, RECIPE)


def test_keys_that_turn_otherwise_than_kvboost_thinks_fail(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", interleaved)
    result = measure_fidelity(make_handle(tiny_models.path("llama-deep"), tmp_path), RECIPE)
    assert not result.passed
    assert result.kl_mean is not None
    assert result.kl_mean > MAX_REUSE_KL
    assert result.machinery_passed
    assert result.reason == f"with reuse the KL is {result.kl_mean:.2f} nats, and 0.5 is allowed"
    assert result.machinery_max_logit_diff is not None
    assert result.machinery_max_logit_diff < 1e-3, "what is computed again was never moved"


def test_keys_turned_by_another_base_fail(tiny_models: TinyModels, tmp_path: Path) -> None:
    result = measure_fidelity(with_wrong_base(make_handle(tiny_models.path("llama-deep"), tmp_path)), RECIPE)
    assert not result.passed
    assert "with reuse the KL is " in str(result.reason)


@pytest.fixture
def _hidden_window() -> Iterator[None]:
    hide_window()
    yield
    take_window_away()


@pytest.mark.usefixtures("_hidden_window")
def test_a_model_that_attends_otherwise_than_its_config_says_fails(tiny_models: TinyModels, tmp_path: Path) -> None:
    result = measure_fidelity(make_handle(tiny_models.path("llama"), tmp_path), RECIPE)
    assert not result.passed
    assert not result.machinery_passed
    assert str(result.reason).startswith("with all computed again a logit is off by ")


@pytest.mark.usefixtures("_hidden_window")
def test_such_a_model_is_right_by_full_prefill_alone(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(2)]
    desk.index()
    with desk.workspace() as workspace:
        shut_gate = start_answer(workspace, ask_request(*paths, content_hits=False)).stitched
        prefilled = start_answer(workspace, ask_request(*paths, no_cache=True)).stitched
        expected = reference_logits(workspace, prefilled.prompt.token_ids, attention="sdpa")
    # fp32 in another order of sums
    torch.testing.assert_close(prefilled.logits, expected, atol=5e-4, rtol=0)
    assert (shut_gate.logits - expected).abs().max() > 0.05


def test_a_model_that_gives_no_finite_numbers_fails_and_is_told_in_json(tmp_path: Path) -> None:
    module = make_model(CONFIGS["llama"]())
    with torch.no_grad():
        module.get_output_embeddings().weight.fill_(torch.inf)
    module.save_pretrained(tmp_path / "broken")
    save_tokenizer(tmp_path / "broken")
    result = measure_fidelity(make_handle(tmp_path / "broken", tmp_path), RECIPE)
    assert (result.passed, result.reason) == (False, "its logits are no finite numbers")
    assert not result.machinery_passed
    assert "NaN" not in result.to_bytes().decode()
    assert "not a number" in result.figures


def test_a_context_that_is_too_short_for_all_probes_is_measured_with_fewer(tmp_path: Path) -> None:
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 1200
    make_model(config).save_pretrained(tmp_path / "short")
    save_tokenizer(tmp_path / "short")
    assert measure_fidelity(make_handle(tmp_path / "short", tmp_path), RECIPE).passed


@pytest.mark.parametrize(
    ("changes", "dtype", "fault"),
    [
        ({}, "float32", None),
        ({"machinery_max_logit_diff": 0.0039}, "float32", None),
        ({"machinery_max_logit_diff": 0.0041}, "float32", "with all computed again a logit is off by 0.0041"),
        ({"machinery_max_logit_diff": 0.8, "machinery_kl": 0.002}, "bfloat16", None),
        ({"machinery_kl": MAX_MACHINERY_KL + 0.001}, "float16", "with all computed again the KL is 0.021 nats"),
        ({"kl_mean": MAX_REUSE_KL}, "float32", None),
        ({"kl_mean": 2.9}, "float32", "with reuse the KL is 2.90 nats, and 0.5 is allowed"),
        ({"kl_mean": None}, "bfloat16", "its logits are no finite numbers"),
    ],
)
def test_the_bounds(changes: dict[str, float | None], dtype: str, fault: str | None) -> None:
    figures = replace(PASSED, **changes)  # type: ignore[arg-type]
    found = find_machinery_fault(figures, dtype) or find_reuse_fault(figures)
    assert found is None if fault is None else str(found).startswith(fault)


def test_a_throwaway_store_that_cannot_be_made_is_told_as_such(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(FidelityNotMeasured, match="could not be checked"):
        measure_fidelity(make_handle(tiny_models.path("llama"), tmp_path), RECIPE)


def test_a_context_that_is_too_short_for_any_probe_is_no_fault_of_the_model(tmp_path: Path) -> None:
    config = CONFIGS["llama"]()
    config.max_position_embeddings = 400
    make_model(config).save_pretrained(tmp_path / "short")
    save_tokenizer(tmp_path / "short")
    with pytest.raises(ProbesRefused, match="could not be checked: the model's context is too short"):
        measure_fidelity(make_handle(tmp_path / "short", tmp_path), RECIPE)


def test_probes_whose_kv_cannot_be_quantized_are_no_fault_of_the_model(tmp_path: Path) -> None:
    module = make_model(CONFIGS["llama"]())
    with torch.no_grad():
        module.get_parameter("model.layers.1.self_attn.v_proj.weight").mul_(1e7)
    module.save_pretrained(tmp_path / "large")
    save_tokenizer(tmp_path / "large")
    with pytest.raises(ProbesRefused, match="could not be checked: a key or value exceeds the range of fp16"):
        measure_fidelity(make_handle(tmp_path / "large", tmp_path), RECIPE)


def test_a_probe_that_is_skipped_is_told(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "DOCUMENTS", (("ferry.md", "\0\0"), *gate.DOCUMENTS[1:]))
    with pytest.raises(FidelityNotMeasured, match="a built-in text was skipped, a binary file: "):
        measure_fidelity(make_handle(tiny_models.path("llama"), tmp_path), RECIPE)


def test_without_content_hits_only_exact_kv_is_reused_and_the_rest_is_full_prefills(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 2)) for seed in range(2)]
    desk.index()
    with desk.workspace() as workspace:
        other_system = {"system": "Answer in one word."}  # no document is exact behind another preamble
        open_gate = start_answer(workspace, ask_request(*paths, **other_system)).stitched
        shut_gate = start_answer(workspace, ask_request(*paths, content_hits=False, **other_system)).stitched
        known_preamble = start_answer(workspace, ask_request(*paths, content_hits=False)).stitched
        expected = reference_logits(workspace, shut_gate.prompt.token_ids)
    assert {chunk.hit for chunk in open_gate.plan.chunks} == {Hit.CONTENT}
    assert {chunk.hit for chunk in shut_gate.plan.chunks} == {Hit.MISS}
    assert known_preamble.plan.preamble_hit is Hit.EXACT
    assert Hit.CONTENT not in {chunk.hit for chunk in known_preamble.plan.chunks}
    # fp32 in another order of sums
    torch.testing.assert_close(shut_gate.logits, expected, atol=5e-4, rtol=0)


@pytest.mark.model
def test_the_default_model_passes_and_fails_with_keys_turned_by_another_base(
    default_model_dir: Path, tmp_path: Path
) -> None:
    recipe = make_recipe(None, 0, 64)
    handle = make_handle(default_model_dir, tmp_path, "bfloat16")
    passed = measure_fidelity(handle, recipe)
    failed = measure_fidelity(with_wrong_base(handle), recipe)
    assert passed.passed, passed.reason
    assert passed.kl_mean is not None
    assert failed.kl_mean is not None
    assert passed.kl_mean < MAX_REUSE_KL / 2 < 2 * MAX_REUSE_KL < failed.kl_mean, "the bound has room on both sides"
    print(passed.figures, failed.figures)
