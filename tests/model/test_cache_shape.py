"""The size of a KV cache told from a config, against the tensors that transformers really keeps."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import SIZES, make_model
from transformers import (
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.cache_utils import DynamicCache

from kvboost_cli.model.cache_shape import CacheShape, KVLayer, read_cache_shape, read_config
from kvboost_cli.model.errors import ModelNotFound, ModelUnsupported
from kvboost_cli.model.forward import _cache_argument

CONTEXT = 40
FOUR_LAYERS = {**SIZES, "num_hidden_layers": 4}
REAL: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "gpt2": GPT2Config(n_layer=3, n_head=4, n_embd=32, n_positions=64, vocab_size=SIZES["vocab_size"]),
    "gpt-neox": GPTNeoXConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, intermediate_size=64,
        vocab_size=SIZES["vocab_size"],
    ),
    "falcon, multi-query": FalconConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, vocab_size=SIZES["vocab_size"], multi_query=True,
        new_decoder_architecture=False,
    ),
    "qwen3": Qwen3Config(**SIZES, head_dim=16),
    "mistral, windowed": MistralConfig(**SIZES, sliding_window=16),
    "qwen2, upper half windowed": Qwen2Config(
        **FOUR_LAYERS, use_sliding_window=True, sliding_window=16, max_window_layers=2
    ),
    "gemma2, every second layer": Gemma2Config(**FOUR_LAYERS, head_dim=8, sliding_window=16),
    "gemma3, patterned": Gemma3TextConfig(**FOUR_LAYERS, head_dim=8, sliding_window=16),
}  # fmt: skip


def kept_numbers(config: PreTrainedConfig) -> int:
    """Numbers in the cache after a real pass over `CONTEXT` tokens; a window's layer keeps one token less than it."""
    cache = DynamicCache(config=config)
    with torch.inference_mode():
        model = make_model(config)
        model(torch.ones(1, CONTEXT, dtype=torch.long), **{_cache_argument(model): cache}, use_cache=True)
    return sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)


@pytest.mark.parametrize("name", REAL)
def test_a_config_tells_what_transformers_keeps(name: str) -> None:
    config = REAL[name]
    shape = read_cache_shape(json.loads(config.to_json_string(use_diff=False)))
    one_token = sum(layer.num_channels(1) for layer in shape.layers if layer.window)
    assert shape.num_bytes(CONTEXT, 16) == 2 * (kept_numbers(config) + one_token)
    assert shape.num_bytes(CONTEXT, 4) * 4 == shape.num_bytes(CONTEXT, 16)


@pytest.mark.parametrize("name", ["qwen2, upper half windowed", "gemma2, every second layer", "gemma3, patterned"])
def test_a_config_from_before_kinds_of_layers_were_listed_tells_the_same(name: str) -> None:
    told: dict[str, Any] = json.loads(REAL[name].to_json_string(use_diff=False))
    listed = read_cache_shape(told)
    older = {key: value for key, value in told.items() if key != "layer_types"}
    if name.startswith("gemma3"):
        older["sliding_window_pattern"] = 6
    assert read_cache_shape(older) == listed


def test_latent_attention_keeps_one_vector_for_all_heads() -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert read_cache_shape(config).num_bytes(1, 16) == 2 * 2 * (512 + 64)


def test_layers_with_a_state_of_fixed_size_are_left_out() -> None:
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    config = {
        "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 8, "num_key_value_heads": 2, "layer_types": kinds,
    }  # fmt: skip
    shape = read_cache_shape(config)
    assert (shape.layers, shape.num_stateful) == ((KVLayer(2, 8, 8),), 3)


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ({"model_type": "x"}, "does not tell its number of layers: x"),
        ({"num_hidden_layers": 2, "model_type": "mamba"}, "does not tell its number of heads: mamba"),
        ({"num_hidden_layers": 2, "mamba_d_state": 16, "model_type": "jamba"}, "which layers have a KV cache: jamba"),
        ({"is_encoder_decoder": True, "model_type": "t5"}, "an encoder-decoder keeps two caches: t5"),
        ({"num_hidden_layers": 1, "n_head": 1, "n_embd": 8, "layer_types": ["mamba"]}, "no layer has a KV cache"),
    ],
)
def test_a_config_that_does_not_tell_is_refused(config: dict[str, Any], fact: str) -> None:
    with pytest.raises(ModelUnsupported, match=fact):
        read_cache_shape(config)


def test_the_language_model_of_a_larger_one_is_read(tmp_path: Path) -> None:
    inner = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "outer", "text_config": inner}))
    assert read_config(tmp_path) == inner == read_config(tmp_path / "config.json")


def test_a_config_that_is_not_there_or_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"cannot be read \(No such file or directory\): .*config.json$"):
        read_config(tmp_path)
    for text in ("[]", "{"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelUnsupported, match="no JSON"):
            read_config(tmp_path)


def test_the_longest_prompt_within_a_size_is_the_longest() -> None:
    shape = CacheShape((KVLayer(2, 8, 8), KVLayer(2, 8, 8, window=100)))
    for context in (1, 99, 100, 101, 5000):
        fits = shape.num_bytes(context, 4)
        assert shape.tokens_within(fits, 4) == context
        assert shape.tokens_within(fits - 1, 4) == context - 1
    windowed = CacheShape((KVLayer(2, 8, 8, window=100),))
    assert windowed.tokens_within(windowed.num_bytes(100, 8), 8) is None, "any prompt fits"


def test_known_figures_come_out() -> None:
    gpt2_small = CacheShape((KVLayer(12, 64, 64),) * 12)
    assert gpt2_small.num_bytes(1024, 16) == 36 * 2**20
    wide = CacheShape((KVLayer(128, 128, 128),) * 60)
    assert wide.num_bytes(100_000, 16) == 393_216_000_000
