"""Random-weight models of known shapes, with a tokenizer and documents of made-up words: nothing is fetched."""

import json
import random
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config
from transformers.utils import logging

logging.disable_progress_bar()

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
IDS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip

CONFIGS: dict[str, PreTrainedConfig] = {
    "qwen2.5-3b": Qwen2Config(
        hidden_size=2048, intermediate_size=11008, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2,
        vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, **IDS,
    ),
    "llama-3.1-8b": LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=128256, max_position_embeddings=131072, tie_word_embeddings=False, rms_norm_eps=1e-5,
        rope_parameters=LLAMA3_ROPE, **IDS,
    ),
    "tiny": LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=4096, max_position_embeddings=4096, tie_word_embeddings=False, **IDS,
    ),
}  # fmt: skip
"""The shapes of the published configs, and one to try the script with."""


def made_up_words(count: int = 1500) -> list[str]:
    """Words of two to four syllables, always the same."""
    source = random.Random(0)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words = {"".join(source.choices(syllables, k=source.randint(2, 4))) for _ in range(count)}
    return sorted(words)


def make_text(seed: int, num_words: int) -> str:
    """Paragraphs of about 60 words."""
    source, words = random.Random(seed), made_up_words()
    lengths = [60] * (num_words // 60) + [num_words % 60] * bool(num_words % 60)
    return "\n\n".join(" ".join(source.choices(words, k=length)).capitalize() + "." for length in lengths) + "\n"


def save_model(name: str, folder: Path, device: torch.device, dtype: torch.dtype) -> Path:
    """Weights drawn on the device, the config and a tokenizer, as files that any loader reads."""
    torch.manual_seed(0)
    with device:
        module = AutoModelForCausalLM.from_config(CONFIGS[name], dtype=dtype)
    module.save_pretrained(folder)
    _save_tokenizer(folder)
    return folder


def _save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=3000,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([make_text(seed, 6000) for seed in range(-3, 0)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
