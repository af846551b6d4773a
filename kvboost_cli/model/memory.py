"""How much memory of the device a model and a prompt take: arithmetic, and what the device says is free."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from .architecture import Geometry

ATTENTION_BLOCK = 256
"""Queries whose scores may be held at once, in fp32, by attention that does not fuse them."""

OVERHEAD_BYTES = 256 << 20
"""What cuBLAS and the allocator take beside tensors, and cannot be told beforehand."""


@dataclass(frozen=True)
class PassSizes:
    """What decides the memory of a pass beside the cache's geometry; ``itemsize`` is the dtype's, in bytes."""

    hidden: int
    intermediate: int
    vocabulary: int
    itemsize: int


@dataclass(frozen=True)
class DeviceNeed:
    """Bytes that a prompt takes on the device, beside the weights."""

    cache: int
    activations: int
    staging: int

    @property
    def total(self) -> int:
        """All of it, with what the libraries take."""
        return self.cache + self.activations + self.staging + OVERHEAD_BYTES


def read_pass_sizes(config: Mapping[str, Any], itemsize: int) -> PassSizes:
    """Sizes from a transformers config as a mapping."""
    return PassSizes(config["hidden_size"], config["intermediate_size"], config["vocab_size"], itemsize)


def cache_bytes(geometry: Geometry, capacity: int, itemsize: int) -> int:
    """Keys and values of all layers: for Llama-3.1-8B in 16 bits ``128 KiB`` a token."""
    return geometry.num_layers * geometry.kv_heads * (geometry.key_dim + geometry.value_dim) * capacity * itemsize


def activation_bytes(geometry: Geometry, sizes: PassSizes, num_tokens: int, num_keys: int) -> int:
    """What one pass of ``num_tokens`` over ``num_keys`` holds at its largest, rounded up.

    Per token: hidden states in the dtype and in fp32, for the norm and the residual, then queries, their folded copy
    and the output of attention, new keys and values, and three vectors of the feed-forward part. Per query and key:
    the mask of each folded head. And two times the fp32 scores of one block of queries, and the last token's logits.
    """
    heads = geometry.num_heads * (2 * geometry.key_dim + 2 * geometry.value_dim)
    heads += geometry.kv_heads * (geometry.key_dim + geometry.value_dim)
    per_token = sizes.itemsize * (2 * sizes.hidden + heads + 3 * sizes.intermediate) + 2 * 4 * sizes.hidden
    masks = geometry.num_folds * num_tokens * num_keys * sizes.itemsize
    scores = 2 * 4 * geometry.num_heads * min(num_tokens, ATTENTION_BLOCK) * num_keys
    return num_tokens * per_token + masks + scores + 2 * 4 * sizes.vocabulary


def weight_bytes(model_dir: Path, itemsize: int) -> int:
    """What the weights of a directory take in a dtype of ``itemsize`` bytes; only the files' headers are read."""
    total = 0
    for path in sorted(model_dir.glob("model*.safetensors")):
        with safe_open(path, framework="pt") as file:
            total += sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return total * itemsize


def free_bytes(device: torch.device) -> int | None:
    """What the device can still give, torch's own reserve included; None where nobody can tell."""
    if device.type != "cuda":
        return None
    free, _total = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
