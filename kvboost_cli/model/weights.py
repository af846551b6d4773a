"""Weights in safetensors files: which tensors there are, told by the files' headers, and the tensors themselves."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"


def weight_files(model_dir: Path) -> list[Path]:
    """The files that hold a model's weights, as transformers looks for them: one, or those that an index names."""
    single, index = model_dir / SINGLE_FILE, model_dir / INDEX_FILE
    if single.is_file():
        return [single]
    if index.is_file():
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [model_dir / name for name in sorted(set(names))]
    return []


def stored_shapes(files: list[Path]) -> dict[str, tuple[int, ...]]:
    """Each tensor's name and shape; no weights are read."""
    shapes = {}
    for path in files:
        with safe_open(path, framework="pt") as file:
            shapes.update({name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
    return shapes


def read_weights(files: list[Path], dtype: torch.dtype) -> Mapping[str, Tensor]:
    """All tensors in ``dtype``, copied out of the mapped files.

    What stays mapped has small pages, on which each token's products are slower, and a file that is cut short meanwhile
    would end the process.
    """
    weights = {}
    for path in files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                weights[name] = file.get_tensor(name).to(dtype, copy=True)
    return weights
