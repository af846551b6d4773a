"""The prompts that all candidates get: which documents, in which order, with which question.

Knows nothing of models and clocks. Documents are whole ones of a folder; a prompt that needs more of them than there
are gets them again under another name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

QUESTIONS = (
    "Explain in detail what the second document says.",
    "What does the first document ask people to do, and why?",
    "Describe every rule that the last document names.",
    "Summarize all documents, one paragraph for each.",
    "Which of the documents matters most to a new colleague, and why?",
    "List the facts of the third document, and explain each of them.",
    "Compare the first document with the last one.",
)


@dataclass(frozen=True)
class SizedText:
    """A document's file name, its text and its tokens with the header that names it."""

    name: str
    text: str
    num_tokens: int


def question(turn: int) -> str:
    """The question of a repeat; neighbouring repeats have different ones."""
    return QUESTIONS[turn % len(QUESTIONS)]


def fill(texts: Sequence[SizedText], num_tokens: int) -> list[SizedText]:
    """Documents, in turn and over again, whose tokens come nearest to ``num_tokens``; two at least.

    Example: of documents a and b with 300 tokens each, 1,000 tokens are ``0-a``, ``0-b`` and ``1-a``.
    """
    chosen: list[SizedText] = []
    total = 0
    for turn, text in enumerate(cycle(texts)):
        missing = num_tokens - total
        if len(chosen) >= 2 and missing < text.num_tokens / 2:
            return chosen
        chosen.append(SizedText(f"{turn // len(texts)}-{text.name}", text.text, text.num_tokens))
        total += text.num_tokens
    raise AssertionError("there is at least one document")


def reordered(names: Sequence[str], turn: int) -> list[str]:
    """The documents in another order of the repeat's own: another one comes first, and no two orders are alike.

    Example: a, b, c are c, b, a in turn 0 and b, a, c in turn 1.
    """
    backwards = list(reversed(names))
    shift = turn % (len(names) - 1)
    return backwards[shift:] + backwards[:shift]


def write_texts(texts: Sequence[SizedText], folder: Path) -> list[str]:
    """The documents as files, and their paths."""
    return list(_write(texts, folder))


def _write(texts: Sequence[SizedText], folder: Path) -> Iterator[str]:
    for text in texts:
        path = folder / text.name
        path.write_text(text.text, encoding="utf-8")
        yield str(path)
