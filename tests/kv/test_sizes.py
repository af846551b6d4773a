"""The size of a layer by integers alone is that of the layout."""

import pytest
import torch

from kvboost_cli.kv.layout import LayerShape
from kvboost_cli.kv.sizes import layer_num_bytes


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("num_tokens", [1, 31, 32, 33, 256])
@pytest.mark.parametrize(("key_dim", "value_dim", "group"), [(64, 64, 32), (80, 48, 16), (24, 8, 8)])
def test_sizes_agree_with_the_layout(
    bits: int, dtype: torch.dtype, num_tokens: int, key_dim: int, value_dim: int, group: int
) -> None:
    shape = LayerShape(
        kv_heads=3, num_tokens=num_tokens, key_dim=key_dim, value_dim=value_dim, bits=bits, group=group, dtype=dtype
    )
    told = layer_num_bytes(
        kv_heads=3, num_tokens=num_tokens, key_dim=key_dim, value_dim=value_dim, bits=bits, group=group,
        item_bytes=dtype.itemsize,
    )  # fmt: skip
    assert told == shape.num_bytes
