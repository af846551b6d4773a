"""The fused kernel against the plain reference: on a GPU where there is one, else under Triton's interpreter."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from kvboost_cli.kv.layout import LayerShape, encode_layer
from kvboost_cli.kv.placing import Placement, make_placer

HEADS, CAPACITY = 2, 90
IS_EMULATED = not torch.cuda.is_available()
DEVICE = torch.device("cpu" if IS_EMULATED else "cuda")


@pytest.fixture(scope="module")
def fused() -> Iterator[ModuleType]:
    """The module of the kernel; Triton reads the variable when it is imported."""
    pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for GPUs")
    with pytest.MonkeyPatch.context() as patch:
        if IS_EMULATED:
            patch.setenv("TRITON_INTERPRET", "1")
        from kvboost_cli.kv import fused

        yield fused


def shape_of(num_tokens: int, bits: int, key_dim: int, value_dim: int, group: int, dtype: torch.dtype) -> LayerShape:
    return LayerShape(HEADS, num_tokens, key_dim, value_dim, bits, group, dtype)


def stored(shapes: tuple[LayerShape, ...], seed: int) -> Tensor:
    """A layer's bytes of all chunks; one channel of the keys has a huge bias."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for shape in shapes:
        keys = torch.randn(HEADS, shape.num_tokens, shape.key_dim, generator=generator)
        keys[:, :, 3] += 90
        values = torch.randn(HEADS, shape.num_tokens, shape.value_dim, generator=generator)
        parts.append(encode_layer(keys, values, shape))
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).to(DEVICE)


def placement_of(shapes: tuple[LayerShape, ...], starts: tuple[int, ...], rotary_dim: int) -> Placement:
    places = tuple(range(start, start + shape.num_tokens) for start, shape in zip(starts, shapes, strict=True))
    positions = torch.tensor([place for run in places for place in run], dtype=torch.float32)
    turns = positions[:, None] * 10000.0 ** -(torch.arange(0, rotary_dim, 2) / rotary_dim)
    return Placement(shapes, places, turns.cos().to(DEVICE), turns.sin().to(DEVICE))


def empty_cache(shape: LayerShape, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A layer's buffers, as slices of a batch, with a mark in every place."""
    sizes = (1, HEADS, CAPACITY)
    keys, values = (
        torch.full((*sizes, dim), -7.0, dtype=dtype, device=DEVICE) for dim in (shape.key_dim, shape.value_dim)
    )
    return keys[0], values[0]


def assert_same(
    fused: ModuleType, shapes: tuple[LayerShape, ...], starts: tuple[int, ...], rotary_dim: int, dtype: torch.dtype
) -> None:
    staged, placement = stored(shapes, len(starts)), placement_of(shapes, starts, rotary_dim)
    expected, got = empty_cache(shapes[0], dtype), empty_cache(shapes[0], dtype)
    make_placer(placement)(staged, *expected)
    fused.make_placer(placement)(staged, *got)
    # products and sums are contracted or not: a rounding of fp32, which may tip one of the cache's dtype
    step = max(torch.finfo(dtype).eps, 4 * torch.finfo(torch.float32).eps)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=step, atol=1e-4)
        if dtype is torch.float16 or not IS_EMULATED:  # the interpreter cuts bf16 off, where a GPU rounds
            assert (one == other).float().mean() > 0.95


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_kernel_does_what_the_reference_does(fused: ModuleType, bits: int, dtype: torch.dtype) -> None:
    shapes = tuple(shape_of(length, bits, 64, 64, 32, dtype) for length in (40, 1, 32))
    assert_same(fused, shapes, (3, 45, 50), 64, dtype)


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("rotary_dim", [96, 32])
def test_head_sizes_that_are_no_power_of_two_and_partial_rotation(
    fused: ModuleType, bits: int, rotary_dim: int
) -> None:
    shapes = tuple(shape_of(length, bits, 96, 80, 16, torch.bfloat16) for length in (19, 33))
    assert_same(fused, shapes, (50, 0), rotary_dim, torch.bfloat16)


def test_places_that_hold_no_stored_token_are_left_alone(fused: ModuleType) -> None:
    shapes = (shape_of(10, 8, 32, 32, 32, torch.bfloat16),)
    cache = empty_cache(shapes[0], torch.bfloat16)
    fused.make_placer(placement_of(shapes, (20,), 32))(stored(shapes, 0), *cache)
    for buffer in cache:
        assert bool((buffer[:, :20] == -7).all() and (buffer[:, 30:] == -7).all())
        assert not bool((buffer[:, 20:30] == -7).any())


COMPILE = """
import sys
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from kvboost_cli.kv.fused import kernel_sizes, place_block
from kvboost_cli.kv.layout import LayerShape

for bits in (4, 8, 16):
    sizes = kernel_sizes(LayerShape(8, 40, 128, 128, bits, 32, torch.bfloat16), int(sys.argv[2]))
    codes, parameters = ("*bf16", "*bf16") if bits == 16 else ("*u8", "*fp16")
    types = [codes, parameters, "*i64", "*fp32", "*fp32", "*bf16", "*bf16", *["i32"] * 4]
    signature = dict(zip(place_block.arg_names, types)) | dict.fromkeys(sizes, "constexpr")
    made = compile(ASTSource(place_block, signature, sizes), target=GPUTarget("cuda", int(sys.argv[1]), 32))
    assert len(made.asm["cubin"]) > 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Triton brings NVIDIA's assembler on Linux alone")
@pytest.mark.parametrize(("capability", "half"), [(80, 64), (90, 16)])
def test_the_kernel_compiles_for_a_gpu_that_is_not_here(capability: int, half: int, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for GPUs")
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(capability), str(half)],
        env=env | {"TRITON_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
