"""The sizes that are computed without torch are those of the layout."""

import itertools

import torch

from kvboost_cli.kv.layout import LayerShape
from kvboost_cli.kv.sizes import DTYPE_BYTES, num_layer_bytes


def test_sizes_are_those_of_the_layout() -> None:
    grid = itertools.product((1, 3), (1, 31, 256, 257), (16, 64), (32, 64), (4, 8, 16), (8, 16), DTYPE_BYTES)
    for heads, tokens, key_dim, value_dim, bits, group, dtype in grid:
        shape = LayerShape(heads, tokens, key_dim, value_dim, bits, group, getattr(torch, dtype))
        told = num_layer_bytes(
            kv_heads=heads, num_tokens=tokens, key_dim=key_dim, value_dim=value_dim, bits=bits, group=group, dtype=dtype
        )
        assert told == shape.num_bytes
