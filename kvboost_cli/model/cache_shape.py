"""The KV cache of any causal model, from its config alone: also of models that cannot be stitched.

Configs name the same sizes in several ways; the tables below have those of transformers' models.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config_file import read_config_file
from .errors import ModelUnsupported

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
HEAD_DIM = ("head_dim", "kv_channels", "attention_head_size")
CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")

FULL_TYPES = frozenset({"full_attention", "attention", "hybrid"})
WINDOW_TYPES = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Kinds of layers that keep only the latest tokens, and where the config says how many."""

WINDOW_PATTERNS = {"gemma2": 2}
"""Every so many layers one is full, for configs from before these told it themselves."""

STATEFUL_MARKS = ("mamba", "ssm_", "attn_layer", "rwkv")
"""How keys begin in configs of models in which not every layer is attention."""

MAX_TOKENS = 2**48
"""Far beyond any context: where more than this fits, there is no limit."""


@dataclass(frozen=True)
class KVLayer:
    """What a layer keeps of each token; ``window`` is how many tokens at most, None for all."""

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None

    def num_channels(self, context: int) -> int:
        """Numbers kept of a prompt of ``context`` tokens, keys and values together."""
        tokens = context if self.window is None else min(context, self.window)
        return tokens * self.kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True)
class CacheShape:
    """The layers that have a KV cache, bottom first; ``max_positions`` is None where the config does not tell.

    ``num_stateful`` counts layers that keep a state of fixed size in its place, which is not counted here.
    """

    layers: tuple[KVLayer, ...]
    max_positions: int | None = None
    num_stateful: int = 0

    @property
    def num_windowed(self) -> int:
        """Layers that keep only the latest tokens."""
        return sum(layer.window is not None for layer in self.layers)

    def num_bytes(self, context: int, bits: int) -> int:
        """Bytes of the cache of a prompt at ``bits`` per number, rounded up.

        GPT-2 small, 12 layers of 12 heads of 64, at 1,024 tokens:

        >>> CacheShape((KVLayer(12, 64, 64),) * 12).num_bytes(1024, 16) / 2**20
        36.0
        """
        return -(-sum(layer.num_channels(context) for layer in self.layers) * bits // 8)

    def tokens_within(self, num_bytes: int, bits: int) -> int | None:
        """The longest prompt whose cache has at most ``num_bytes``; None if there is no longest."""
        if self.num_bytes(MAX_TOKENS, bits) <= num_bytes:
            return None
        low, high = 0, MAX_TOKENS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.num_bytes(middle, bits) <= num_bytes else (low, middle)
        return low


def read_config(path: Path) -> Mapping[str, Any]:
    """The language model's part of a ``config.json``, or of the one in a directory."""
    config = read_config_file(path / "config.json" if path.is_dir() else path)
    inner = config.get("text_config") or config.get("llm_config")
    return inner if isinstance(inner, dict) else config


def read_cache_shape(config: Mapping[str, Any]) -> CacheShape:
    """The shape of the cache; raises ``ModelUnsupported`` where the config does not tell it."""
    if config.get("is_encoder_decoder"):
        raise ModelUnsupported(f"an encoder-decoder keeps two caches: {_type_of(config)}")
    num_layers = _read(config, LAYERS, "number of layers")
    kinds = _layer_kinds(config, num_layers)
    full = _full_layer(config)
    layers = tuple(
        KVLayer(full.kv_heads, full.key_dim, full.value_dim, _window(config, kind))
        for kind in kinds
        if kind in FULL_TYPES or kind in WINDOW_TYPES
    )
    if not layers:
        raise ModelUnsupported(f"no layer has a KV cache: {_type_of(config)}")
    return CacheShape(layers, _find(config, CONTEXT), num_layers - len(layers))


def _full_layer(config: Mapping[str, Any]) -> KVLayer:
    if latent := _find(config, ("kv_lora_rank",)):  # multi-head latent attention keeps one vector for all heads
        return KVLayer(1, latent + _read(config, ("qk_rope_head_dim",), "rotary size"), 0)
    num_heads = _read(config, HEADS, "number of heads")
    head_dim = _find(config, HEAD_DIM) or _read(config, WIDTH, "width") // num_heads
    shares_one = config.get("multi_query") and not config.get("new_decoder_architecture")
    kv_heads = 1 if shares_one else _find(config, KV_HEADS) or num_heads
    return KVLayer(kv_heads, head_dim, _find(config, ("v_head_dim",)) or head_dim)


def _layer_kinds(config: Mapping[str, Any], num_layers: int) -> list[str]:
    kinds = config.get("layer_types") or config.get("layers_block_type")
    if isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds):
        return kinds[:num_layers]
    if any(key.startswith(STATEFUL_MARKS) for key in config):
        raise ModelUnsupported(f"the model's config does not tell which layers have a KV cache: {_type_of(config)}")
    return ["sliding_attention" if _is_sliding(config, i) else "full_attention" for i in range(num_layers)]


def _is_sliding(config: Mapping[str, Any], layer: int) -> bool:
    """Whether a layer has a window, in a config that lists no kinds of layers."""
    if not config.get("sliding_window") or not config.get("use_sliding_window", True):
        return False
    pattern = _find(config, ("sliding_window_pattern",)) or WINDOW_PATTERNS.get(_type_of(config))
    if pattern is not None:
        return (layer + 1) % pattern > 0
    first = config.get("max_window_layers")
    return not isinstance(first, int) or layer >= first


def _type_of(config: Mapping[str, Any]) -> str:
    return str(config.get("model_type", "unknown"))


def _window(config: Mapping[str, Any], kind: str) -> int | None:
    return None if kind in FULL_TYPES else _read(config, (WINDOW_TYPES[kind],), "window")


def _find(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first of these that is there as a whole number over 0."""
    values = (config.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)


def _read(config: Mapping[str, Any], names: tuple[str, ...], what: str) -> int:
    value = _find(config, names)
    if value is None:
        raise ModelUnsupported(f"the model's config does not tell its {what}: {_type_of(config)}")
    return value
