"""A real byte-level BPE tokenizer, trained here, and long texts with the shape of real ones."""

import random
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from kvboost_cli.documents import TokenizedText

Tokenize = Callable[[str], TokenizedText]

_TEXT = """
store record page cache token layer model index value writer reader transaction memory map file folder system question
answer document passage budget measure rotate repair encode window offset boundary heading sentence paragraph edit
change process machine number result limit error message path network power signal engine river bridge harvest
library museum garden winter summer teacher student letter station island mountain coast village market
the a of to in and is for with on by from that which when every some no one must may can will never always often
keeps writes reads holds gives takes finds makes returns needs shows moves closes opens starts ends waits
large small early late quick slow deep old new open quiet narrow common rare exact simple careful
"""
WORDS = _TEXT.split()


def sentence(rng: random.Random) -> str:
    words = " ".join(rng.choices(WORDS, k=rng.randint(6, 18)))
    return words.capitalize() + "."


def paragraph(rng: random.Random) -> str:
    return " ".join(sentence(rng) for _ in range(rng.randint(2, 6)))


def handbook(seed: int, num_sections: int = 30) -> str:
    """A Markdown document of sections with headings, paragraphs and some fenced code."""
    rng = random.Random(seed)
    parts: list[str] = []
    for number in range(num_sections):
        parts.append(f"## {number}. {sentence(rng)}")
        parts += [paragraph(rng) for _ in range(rng.randint(1, 6))]
        if number % 5 == 0:
            lines = [f"{rng.choice(WORDS)}_{line} = {rng.choice(WORDS)}({line})" for line in range(8)]
            parts.append("```python\n" + "\n\n".join(lines) + "\n```")
    return "\n\n".join(parts) + "\n"


@pytest.fixture(scope="session")
def tokenize() -> Tokenize:
    """Byte-level BPE: one character of Chinese or an emoji takes several tokens that share its offsets."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1200, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([handbook(seed, 5) for seed in range(4)], trainer)

    def run(text: str) -> TokenizedText:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        return TokenizedText(encoding.ids, encoding.offsets)

    return run
