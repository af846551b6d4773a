"""Which configs are accepted, which are refused and why, and the sizes that are read from them."""

from typing import Any

import pytest
import torch
from tiny_models import ARCHITECTURES, CONFIGS, CPU, SIZES, TinyModels, make_model, save_tokenizer
from transformers import (
    GemmaConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from kvboost_cli.model.architecture import Geometry, read_geometry, require_supported
from kvboost_cli.model.errors import DeviceUnavailable, ModelUnsupported
from kvboost_cli.model.load import choose_device, choose_dtype, load_model

DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
REFUSED: dict[str, tuple[PreTrainedConfig, str]] = {
    "dynamic NTK": (LlamaConfig(**SIZES, rope_parameters=DYNAMIC), r"dynamic NTK .*: dynamic$"),
    "learned positions": (GPT2Config(n_layer=2, n_head=2, n_embd=32), r"(?i)architectures .* not: gpt2$"),
    "windowed Mistral": (MistralConfig(**SIZES, sliding_window=64), r"sliding-window .* window 64$"),
    "windowed Qwen2": (
        Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=32, max_window_layers=1),
        r"sliding-window .* window 32$",
    ),
    "windowed Qwen3": (
        Qwen3Config(**SIZES, use_sliding_window=True, sliding_window=32, max_window_layers=0),
        r"sliding-window .* window 32$",
    ),
    "windowed Phi-3": (Phi3Config(**SIZES, sliding_window=64), r"sliding-window .* window 64$"),
    "not in the table": (GemmaConfig(**SIZES), r"(?i)architectures .* not: gemma$"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stitched_is_refused_with_the_reason(name: str) -> None:
    config, fact = REFUSED[name]
    with pytest.raises(ModelUnsupported, match=fact):
        require_supported(config.to_dict())


@pytest.mark.parametrize("name", ["dynamic NTK", "learned positions", "windowed Mistral", "windowed Qwen2"])
def test_a_refused_model_is_not_loaded(tiny_models: TinyModels, name: str) -> None:
    config, fact = REFUSED[name]
    folder = tiny_models.root / f"refused {name}"
    make_model(config).save_pretrained(folder)
    save_tokenizer(folder)
    with pytest.raises(ModelUnsupported, match=fact):
        load_model(folder, CPU, "float32")


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**SIZES, sliding_window=None),
        MistralConfig(**SIZES, sliding_window=SIZES["max_position_embeddings"]),
        Qwen2Config(**SIZES, use_sliding_window=False, sliding_window=32),
        Qwen3Config(**SIZES, use_sliding_window=False),
        Phi3Config(**SIZES, sliding_window=None),
    ],
    ids=["no window", "a window over all", "Qwen2's unused window", "Qwen3's unused window", "Phi-3"],
)
def test_a_window_that_hides_nothing_is_accepted(config: PreTrainedConfig) -> None:
    require_supported(config.to_dict())


@pytest.mark.parametrize("facts", [{}, {"model_type": ""}, {"model_type": "deepseek_v3"}, {"model_type": "mamba"}])
def test_unknown_architectures_are_named(facts: dict[str, Any]) -> None:
    with pytest.raises(ModelUnsupported, match=f"not: {facts.get('model_type') or 'unknown'}$"):
        require_supported(facts)


@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("type_key", ["rope_type", "type"])
def test_dynamic_scaling_is_found_under_its_older_names(key: str, type_key: str) -> None:
    with pytest.raises(ModelUnsupported, match="dynamic"):
        require_supported({"model_type": "llama", key: {type_key: "dynamic", "factor": 2.0}})


def test_sizes_come_from_the_config() -> None:
    geometry = read_geometry(CONFIGS["qwen3"]().to_dict())
    assert geometry == Geometry(2, num_heads=4, kv_heads=2, key_dim=32, value_dim=32, max_positions=4096)
    assert geometry.num_folds == 2
    assert read_geometry(CONFIGS["phi3"]().to_dict()).key_dim == 16


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_loaded_model_is_what_its_config_says(tiny_models: TinyModels, name: str) -> None:
    model = tiny_models.load(name)
    cos, sin = model.rotary_angles(10)
    rotary_dim = model.geometry.key_dim // (2 if name == "phi3-partial" else 1)
    assert cos.shape == sin.shape == (10, rotary_dim // 2)
    assert cos.dtype == torch.float32
    # a turn has length 1, also where the model scales its attention (yarn, longrope)
    torch.testing.assert_close(cos.square() + sin.square(), torch.ones_like(cos))
    assert model.end_tokens == {2}
    assert not model.module.training


def test_longrope_angles_are_those_of_a_prompt_of_this_length(tiny_models: TinyModels) -> None:
    model = tiny_models.load("phi3")
    short, long = model.rotary_angles(256)[0], model.rotary_angles(257)[0]
    assert not torch.allclose(short, long[:256])
    assert torch.equal(model.rotary_angles(256)[0], short), "the long factors do not stick"
    factors = torch.tensor(model.module.config.rope_parameters["long_factor"], dtype=torch.float64)
    frequencies = 1 / (factors * 10000.0 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16))
    expected = torch.cos(torch.arange(257, dtype=torch.float64)[:, None] * frequencies)
    torch.testing.assert_close(long.double(), expected, atol=1e-4, rtol=0)


def test_a_damaged_weights_file_is_told_as_one_sentence(tiny_models: TinyModels) -> None:
    folder = tiny_models.root / "damaged"
    make_model(CONFIGS["llama"]()).save_pretrained(folder)
    save_tokenizer(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelUnsupported, match=f"cannot be loaded .*: {folder}$"):
        load_model(folder, CPU, "float32")


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceUnavailable, match=r": tpu$"):
        choose_device("tpu")
    assert choose_device("cpu").type == "cpu"
    assert choose_dtype("float16", CPU) == "float16"
    assert choose_dtype("auto", CPU) in {"bfloat16", "float32"}
