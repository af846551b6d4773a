"""Attention that no config tells of: transformers' own passes leave out keys that are more than 64 positions away."""

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

WINDOW = 64


def hide_window() -> None:
    """From now on in this process, for every model."""
    AttentionInterface.register("sdpa", _windowed)


def take_window_away() -> None:
    """As transformers has it."""
    AttentionInterface.register("sdpa", sdpa_attention_forward)


def _windowed(module: object, query: Tensor, key: Tensor, value: Tensor, _mask: object, **options: object) -> object:
    rows = torch.arange(query.shape[2])[:, None] + key.shape[2] - query.shape[2]
    distance = rows - torch.arange(key.shape[2])
    mask = ((distance >= 0) & (distance < WINDOW))[None, None]
    return sdpa_attention_forward(module, query, key, value, mask, **options)  # type: ignore[arg-type]
