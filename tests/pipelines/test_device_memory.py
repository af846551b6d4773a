"""Planning the device's memory, with the figures of a known model worked out by hand."""

from pathlib import Path

import pytest
import torch
from tiny_models import TinyModels

from kvboost_cli.model.architecture import Geometry
from kvboost_cli.model.memory import (
    OVERHEAD_BYTES,
    DeviceNeed,
    PassSizes,
    activation_bytes,
    cache_bytes,
    free_bytes,
    weight_bytes,
)
from kvboost_cli.pipelines.device_memory import plan_device_memory, require_room
from kvboost_cli.pipelines.errors import DeviceMemoryShort

LLAMA_8B = Geometry(num_layers=32, num_heads=32, kv_heads=8, key_dim=128, value_dim=128, max_positions=131072)
SIZES = PassSizes(hidden=4096, intermediate=14336, vocabulary=128256, itemsize=2)
GIB = 1 << 30


def test_a_cache_of_sixteen_thousand_tokens_of_llama_8b_takes_two_gibibytes() -> None:
    assert cache_bytes(LLAMA_8B, 16384, 2) == 2 * GIB


def test_a_short_pass_over_a_long_prompt_takes_little() -> None:
    per_token = 2 * (2 * 4096 + 32 * 512 + 8 * 256 + 3 * 14336) + 8 * 4096
    expected = 100 * per_token + 4 * 100 * 16384 * 2 + 8 * 32 * 100 * 16384 + 8 * 128256
    assert activation_bytes(LLAMA_8B, SIZES, 100, 16384) == expected
    assert expected < GIB // 2


def test_scores_are_held_for_one_block_of_queries_only() -> None:
    one, two = (activation_bytes(LLAMA_8B, SIZES, tokens, 16384) for tokens in (1024, 2048))
    assert two < 2 * one


def test_the_parts_of_a_prompt_sum_to_its_need() -> None:
    need = plan_device_memory(LLAMA_8B, SIZES, 1000, 50, 1100, staged_bytes=2_000_000)
    assert need.cache == 1100 * 131072
    assert need.activations == activation_bytes(LLAMA_8B, SIZES, 50, 1000)
    assert need.staging == 2_000_000 + 1000 * 512
    assert need.total == need.cache + need.activations + need.staging + OVERHEAD_BYTES


def test_a_prompt_that_just_fits_is_taken_and_one_byte_less_is_refused_with_both_figures() -> None:
    need = DeviceNeed(cache=1_000_000, activations=20_000, staging=300)
    require_room(need, need.total)
    told = rf"needs {need.total:,} bytes .*cache 1,000,000, activations 20,000, staging 300.* free: {need.total - 1:,}$"
    with pytest.raises(DeviceMemoryShort, match=told):
        require_room(need, need.total - 1)


def test_weights_are_counted_from_the_files_in_the_dtype_they_are_used_in(tiny_models: TinyModels) -> None:
    module = tiny_models.load("llama").module
    num_weights = sum(parameter.numel() for parameter in module.parameters())
    folder: Path = tiny_models.path("llama")
    assert (weight_bytes(folder, 2), weight_bytes(folder, 4)) == (2 * num_weights, 4 * num_weights)


def test_a_cpu_tells_nothing() -> None:
    assert free_bytes(torch.device("cpu")) is None
