"""transformers calls the cache argument ``past_key_values`` or ``cache``; both go through one adapter.

The stand-ins have the signatures of either generation's models and remember what they were called with.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tiny_models import CPU
from torch import Tensor, nn

from kvboost_cli.model.architecture import Geometry
from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.errors import ModelUnsupported
from kvboost_cli.model.forward import forward_tokens, full_prefill, write_kv
from kvboost_cli.model.load import LoadedModel

GEOMETRY = Geometry(num_layers=1, num_heads=2, kv_heads=1, key_dim=8, value_dim=8, max_positions=64)


class Output(dict[str, Any]):
    @property
    def logits(self) -> Tensor:
        return torch.zeros(1, 1, 4)


class Standin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Mapping[str, Any] = {}

    @property
    def base_model(self) -> nn.Module:
        return self

    def set_attn_implementation(self, name: str) -> None:
        self.attention = name


class FormerModel(Standin):
    def forward(self, input_ids: Tensor, past_key_values: object = None, **options: object) -> Output:
        self.seen = {"ids": input_ids, "cache": past_key_values, **options}
        return Output(past_key_values="its own")


class LatterModel(Standin):
    def forward(self, input_ids: Tensor, cache: object = None, **options: object) -> Output:
        self.seen = {"ids": input_ids, "cache": cache, **options}
        return Output(cache="its own")


class StatelessModel(Standin):
    def forward(self, input_ids: Tensor, **options: object) -> Output:
        return Output(ids=input_ids, **options)


def loaded(module: Standin) -> LoadedModel:
    return LoadedModel(module, GEOMETRY, CPU, torch.float32, frozenset())  # type: ignore[arg-type]


def one_pass(module: Standin, *, kv_only: bool) -> ScatterCache:
    kv = ScatterCache(GEOMETRY, 8, torch.float32, CPU)
    (write_kv if kv_only else forward_tokens)(loaded(module), torch.tensor([[5, 6]]), [3, 4], kv)
    return kv


@pytest.mark.parametrize("kind", [FormerModel, LatterModel])
@pytest.mark.parametrize("kv_only", [True, False])
def test_the_cache_arrives_under_either_name(kind: type[Standin], kv_only: bool) -> None:
    module = kind()
    kv = one_pass(module, kv_only=kv_only)
    assert module.seen["cache"] is kv
    assert "past_key_values" not in module.seen
    assert module.seen["position_ids"].tolist() == [[3, 4]]
    assert ("logits_to_keep" in module.seen) is not kv_only


@pytest.mark.parametrize("kind", [FormerModel, LatterModel])
def test_a_full_prefill_returns_the_models_own_cache_under_either_name(kind: type[Standin]) -> None:
    _, cache = full_prefill(loaded(kind()), torch.tensor([[5, 6]]))
    assert cache == "its own"


def test_a_model_without_cache_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match=r"takes no KV cache: StatelessModel\.forward$"):
        one_pass(StatelessModel(), kv_only=False)
