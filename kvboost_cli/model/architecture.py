"""Which architectures can be stitched, and the sizes of their KV."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ModelUnsupported

SUPPORTED_TYPES = frozenset({"llama", "mistral", "qwen2", "qwen3", "phi3"})
"""Model types whose every layer is full attention with half-split rotary keys; tested each with a tiny model."""

LONGROPE_TYPES = ("longrope", "su")
"""The second is an older name for the first."""

OLD_PHI3_TYPES = ("yarn",)
"""transformers takes these, too, for longrope if a Phi-3's config has them."""

REFUSED_ROPE_TYPES = {"dynamic": "dynamic NTK scaling gives one key another rotation in each prompt length"}


@dataclass(frozen=True)
class Geometry:
    """Sizes that decide a model's KV cache; lengths are in tokens."""

    num_layers: int
    num_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    max_positions: int

    @property
    def num_folds(self) -> int:
        """Query heads per key-value head."""
        return self.num_heads // self.kv_heads


def read_geometry(config: Mapping[str, Any]) -> Geometry:
    """Sizes from a transformers config as a mapping; raises ``ModelUnsupported`` with the reason."""
    require_supported(config)
    num_heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // num_heads
    return Geometry(
        num_layers=config["num_hidden_layers"],
        num_heads=num_heads,
        kv_heads=config.get("num_key_value_heads") or num_heads,
        key_dim=head_dim,
        value_dim=head_dim,
        max_positions=config["max_position_embeddings"],
    )


def exact_positions(config: Mapping[str, Any]) -> int:
    """How many of a prompt's first positions have one set of rotary factors whatever the prompt's length.

    That is the model's context, but for longrope, whose factors change where a prompt grows beyond the length that the
    model was first trained with.
    """
    limit = int(config["max_position_embeddings"])
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    longrope_types = LONGROPE_TYPES + (OLD_PHI3_TYPES if config.get("model_type") == "phi3" else ())
    if (rope.get("rope_type") or rope.get("type")) not in longrope_types:
        return limit
    name = "original_max_position_embeddings"
    return min(limit, int(config.get(name) or rope.get(name) or limit))


def require_supported(config: Mapping[str, Any]) -> None:
    """Raise ``ModelUnsupported`` unless chunks of this model can be encoded apart and stitched."""
    model_type = config.get("model_type", "")
    if model_type not in SUPPORTED_TYPES:
        known = ", ".join(sorted(SUPPORTED_TYPES))
        raise ModelUnsupported(f"only these architectures can be stitched ({known}), not: {model_type or 'unknown'}")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    if rope_type in REFUSED_ROPE_TYPES:
        raise ModelUnsupported(f"keys cannot be moved, since {REFUSED_ROPE_TYPES[rope_type]}: {rope_type}")
    if _has_window(config):
        raise ModelUnsupported(f"sliding-window layers are not stitched: window {config.get('sliding_window')}")


def _has_window(config: Mapping[str, Any]) -> bool:
    layer_types = config.get("layer_types")
    if layer_types is not None:
        return any(kind != "full_attention" for kind in layer_types)
    window = config.get("sliding_window")
    reaches_all = window is None or window >= config.get("max_position_embeddings", 0)
    return not reaches_all and config.get("use_sliding_window", True)
