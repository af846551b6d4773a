"""Exact encoding: runs of tokens behind a prefix have the keys and values that one pass over the whole text gives."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from test_encode import KEY_TOLERANCE, naive_unrotated, random_tokens
from tiny_models import ARCHITECTURES, CPU, LONG_FROM, TinyModels

from kvboost_cli.kv.rotate import rotate_keys
from kvboost_cli.model.architecture import exact_positions
from kvboost_cli.model.encode import PASS_TOKENS, LayerKV, encode_prefix, encode_runs
from kvboost_cli.model.load import LoadedModel, load_model

# fp32 in another order of sums; keys near 300 (Qwen2) that were turned back and forth
TOLERANCE = {"atol": 5e-4, "rtol": 1e-5}


def encode(model: LoadedModel, prefix: tuple[int, ...], sizes: list[int]) -> tuple[list[int], list[list[LayerKV]]]:
    """Token ids of prefix and runs of these sizes, and per run its layers."""
    runs = [random_tokens(size, 30 + number) for number, size in enumerate(sizes)]
    layers: dict[int, list[LayerKV]] = {}
    for passed in encode_runs(model, encode_prefix(model, prefix), runs):
        layers.update((number, list(of_run)) for number, of_run in passed)
    assert list(layers) == list(range(len(runs)))
    return [*prefix, *(token for run in runs for token in run)], list(layers.values())


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("prefix_length", [0, 1, 20])
def test_runs_are_what_one_pass_over_the_whole_text_gives(
    tiny_models: TinyModels, name: str, prefix_length: int
) -> None:
    model, sizes = tiny_models.load(name), [40, 1, 130, 25]
    ids, runs = encode(model, random_tokens(prefix_length, 4), sizes)
    assert len(ids) <= LONG_FROM
    reference = tiny_models.reference(name, torch.tensor([ids]))
    cos, sin = model.rotary_angles(len(ids))
    start = prefix_length
    for size, layers in zip(sizes, runs, strict=True):
        part = slice(start, start + size)
        for (keys, values), (expected_keys, expected_values) in zip(layers, reference.layers, strict=True):
            unrotated = naive_unrotated(model, expected_keys, len(ids))[:, part]
            torch.testing.assert_close(keys.double(), unrotated, **TOLERANCE)
            torch.testing.assert_close(rotate_keys(keys, cos[part], sin[part]), expected_keys[:, part], **TOLERANCE)
            torch.testing.assert_close(values, expected_values[:, part], **TOLERANCE)
        start += size


@pytest.mark.parametrize("sizes", [[PASS_TOKENS + 30, 200, 200, 200, 300], [200, PASS_TOKENS], [PASS_TOKENS] * 3])
def test_several_passes_change_nothing(tiny_models: TinyModels, sizes: list[int]) -> None:
    model = tiny_models.load("llama")
    ids, runs = encode(model, random_tokens(7, 4), sizes)
    reference = tiny_models.reference("llama", torch.tensor([ids]))
    for layer, (expected_keys, expected_values) in enumerate(reference.layers):
        keys, values = (torch.cat([layers[layer][part] for layers in runs], dim=1) for part in (0, 1))
        unrotated = naive_unrotated(model, expected_keys, len(ids))[:, 7:]
        torch.testing.assert_close(keys.double(), unrotated, **TOLERANCE)
        torch.testing.assert_close(values, expected_values[:, 7:], **TOLERANCE)


def test_a_pass_ends_where_the_next_run_would_make_it_too_long(tiny_models: TinyModels) -> None:
    model, sizes = tiny_models.load("llama"), [200, 300, 100, 600, 512, 20]
    runs = [random_tokens(size, 1) for size in sizes]
    passes = [[number for number, _ in passed] for passed in encode_runs(model, encode_prefix(model, ()), runs)]
    assert passes == [[0, 1], [2], [3], [4], [5]]
    assert list(encode_runs(model, encode_prefix(model, ()), [])) == []


def test_the_prefix_alone_decides_nothing_about_the_first_layer(tiny_models: TinyModels) -> None:
    """Its unrotated keys depend on the token alone."""
    model = tiny_models.load("llama")
    (near,), (far,) = (encode(model, random_tokens(length, 4), [30])[1] for length in (3, 200))
    torch.testing.assert_close(near[0][0], far[0][0], **KEY_TOLERANCE)
    assert (near[1][0] - far[1][0]).abs().max() > 0.1


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_exact_positions_of_the_config_file_are_those_of_the_loaded_model(tiny_models: TinyModels, name: str) -> None:
    model, config = tiny_models.load(name), (tiny_models.path(name) / "config.json").read_text()
    positions = exact_positions(json.loads(config))
    assert positions == (LONG_FROM if name == "phi3" else model.geometry.max_positions)
    assert model.rope_variant(positions) == 0
    assert model.rope_variant(positions + 1) == (1 if name == "phi3" else 0)


@pytest.mark.parametrize(("name", "type_key"), [("yarn", "type"), ("yarn", "rope_type"), ("su", "type")])
def test_a_phi3s_old_names_for_longrope_are_taken_as_transformers_takes_them(
    tiny_models: TinyModels, tmp_path: Path, name: str, type_key: str
) -> None:
    folder = Path(shutil.copytree(tiny_models.path("phi3"), tmp_path / "phi3"))
    config = json.loads((folder / "config.json").read_text())
    factors = config.pop("rope_parameters")
    del factors["rope_type"]
    config["rope_scaling"] = factors | {type_key: name}
    (folder / "config.json").write_text(json.dumps(config))
    model, positions = load_model(folder, CPU, "float32"), exact_positions(config)
    assert positions == LONG_FROM
    assert [model.rope_variant(length) for length in (positions, positions + 1)] == [0, 1]


def test_yarn_of_other_models_reaches_over_their_context(tiny_models: TinyModels) -> None:
    config = json.loads((tiny_models.path("llama-yarn") / "config.json").read_text())
    assert exact_positions(config) == config["max_position_embeddings"]


def test_runs_beyond_longropes_switch_are_a_programmers_error(tiny_models: TinyModels) -> None:
    model = tiny_models.load("phi3")
    with pytest.raises(AssertionError, match="longrope"):
        next(encode_runs(model, encode_prefix(model, (3,)), [random_tokens(LONG_FROM, 1)]))
