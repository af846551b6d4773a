"""Tiny random two-layer models of every supported kind, with a byte-level tokenizer, saved as real model files."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)
from transformers.utils import logging

from kvboost_cli.model.load import LoadedModel, load_model

torch.set_num_threads(1)  # the operations are tiny: threads would only wait for each other
logging.disable_progress_bar()

CPU = torch.device("cpu")
VOCABULARY = 512
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_TOKEN = SPECIAL_TOKENS.index("<|im_end|>")
LONG_FROM = 256
"""Where the longrope model changes its factors."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    # large enough that attention is far from uniform and a wrong key shows in the logits
    "initializer_range": 0.15,
    "bos_token_id": 1,
    "eos_token_id": END_TOKEN,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [1.5 + 0.7 * i for i in range(8)], "original_max_position_embeddings": LONG_FROM,
}  # fmt: skip
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}

CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**SIZES),
    "llama-llama3": lambda: LlamaConfig(**SIZES, rope_parameters=dict(LLAMA3)),
    "llama-yarn": lambda: LlamaConfig(**SIZES, rope_parameters=dict(YARN)),
    "llama-linear": lambda: LlamaConfig(
        **SIZES, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
    ),
    "qwen2": lambda: Qwen2Config(**SIZES),
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=32),
    "mistral": lambda: MistralConfig(**SIZES, sliding_window=None),
    "phi3": lambda: Phi3Config(**SIZES, original_max_position_embeddings=LONG_FROM, rope_parameters=dict(LONGROPE)),
    "phi3-partial": lambda: Phi3Config(**SIZES, rope_parameters=dict(PARTIAL)),
}
ARCHITECTURES = tuple(CONFIGS)
CONFIGS["llama-deep"] = lambda: LlamaConfig(**{**SIZES, "num_hidden_layers": 4})


def make_model(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    """A random model; norm weights are random, too, and a Qwen2's ``k_proj`` has a huge bias."""
    torch.manual_seed(seed)
    module = AutoModelForCausalLM.from_config(config, dtype=torch.float32).train(False)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if "norm" in name:
                weight.add_(torch.rand(weight.shape) - 0.5)
            if name.endswith("k_proj.bias"):
                weight[::8] = 300.0
    return module


@cache
def trained_tokenizer() -> str:
    """A byte-level BPE tokenizer of 512 tokens as JSON, trained on the licence: a text that stays."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((Path(__file__).parents[2] / "LICENSE").read_text().splitlines(), trainer)
    return str(tokenizer.to_str())


def save_tokenizer(folder: Path, template: str | None = CHATML, **config: object) -> None:
    """tokenizer.json and tokenizer_config.json; ``config`` adds to or replaces entries of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(trained_tokenizer(), encoding="utf-8")
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": template}
    known = {key: value for key, value in (facts | config).items() if value is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(known), encoding="utf-8")


def save_tiny(name: str, folder: Path, seed: int = 0) -> Path:
    """Save the named architecture with its tokenizer to ``folder``."""
    make_model(CONFIGS[name](), seed).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


class Reference(NamedTuple):
    """Logits [1, tokens, vocabulary], and per layer keys, rotated, and values [kv_heads, tokens, head_dim]."""

    logits: Tensor
    layers: list[tuple[Tensor, Tensor]]


class TinyModels:
    """Saves and loads each architecture once below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._loaded: dict[str, LoadedModel] = {}
        self._plain: dict[str, PreTrainedModel] = {}

    def path(self, name: str) -> Path:
        """The model's directory."""
        folder = self.root / name
        return folder if folder.exists() else save_tiny(name, folder)

    def load(self, name: str) -> LoadedModel:
        """The model as kvboost loads it, in fp32."""
        if name not in self._loaded:
            self._loaded[name] = load_model(self.path(name), CPU, "float32")
        return self._loaded[name]

    def reference(self, name: str, ids: Tensor, positions: Tensor | None = None) -> Reference:
        """Plain transformers with its eager attention over ``ids``, int64 [1, tokens], in one pass."""
        if name not in self._plain:
            self._plain[name] = AutoModelForCausalLM.from_pretrained(
                self.path(name), dtype=torch.float32, attn_implementation="eager"
            ).train(False)
        with torch.inference_mode():
            output = self._plain[name](input_ids=ids, position_ids=positions, use_cache=True)
        cache = next(value for value in output.values() if isinstance(value, DynamicCache))
        return Reference(output.logits, [(layer.keys[0], layer.values[0]) for layer in cache.layers])
