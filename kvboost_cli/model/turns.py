"""What a chat template writes around the turns of a conversation. Text only; the codec makes token ids of it.

A template may write an earlier answer in another way than it was generated: Qwen3's leaves out what the model thought
before it. So a conversation is rendered twice, with marks for its answers and with the answers themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import ModelUnsupported

Message = dict[str, str]
"""``role`` and ``content``, as a template has them."""

Render = Callable[[Sequence[Message]], str]
"""A conversation's text, up to where the next answer begins."""


@dataclass(frozen=True)
class Exchange:
    """The text between two questions: ``opening``, the answer, ``ending``.

    ``rewritten`` is the answer as the template has it, or None where it has what was generated.
    """

    opening: str
    ending: str
    rewritten: str | None


@dataclass(frozen=True)
class TurnTexts:
    """The template's text before the first question, around each earlier answer, and behind the last question."""

    before: str
    exchanges: tuple[Exchange, ...]
    closing: str


def render_turns(render: Render, system: Sequence[Message], answers: Sequence[str]) -> TurnTexts:
    """The text around questions and answers of a conversation whose last answer is still to come.

    Raises ``ModelUnsupported`` if the template does not show each turn once and in order.
    """
    users = [_mark("user", number) for number in range(len(answers) + 1)]
    marks = [_mark("answer", number) for number in range(len(answers))]
    marked = _split(render([*system, *_messages(users, marks)]), _in_turn(users, marks))
    before, *between, closing = marked
    written = _split(render([*system, *_messages(users, answers)]), users)[1:-1]
    openings, endings = between[::2], between[1::2]
    exchanges = map(_exchange, openings, endings, written, answers)
    return TurnTexts(before, tuple(exchanges), closing)


def _exchange(opening: str, ending: str, written: str, answer: str) -> Exchange:
    if len(written) < len(opening) + len(ending) or not (written.startswith(opening) and written.endswith(ending)):
        raise ModelUnsupported("the chat template does not write an earlier answer between its own marks")
    shown = written[len(opening) : len(written) - len(ending)]
    return Exchange(opening, ending, None if shown.strip() == answer.strip() else shown)


def _messages(users: Sequence[str], answers: Sequence[str]) -> list[Message]:
    contents = _in_turn(users, answers)
    return [{"role": "assistant" if i % 2 else "user", "content": content} for i, content in enumerate(contents)]


def _in_turn(users: Sequence[str], answers: Sequence[str]) -> list[str]:
    pairs = zip(users, answers, strict=False)
    return [*(text for pair in pairs for text in pair), users[-1]]


def _mark(role: str, number: int) -> str:
    return f"\u241f{role} {number}\u241f"


def _split(text: str, marks: Sequence[str]) -> list[str]:
    """The pieces before, between and behind marks that stand in this order, each once."""
    pieces = []
    for mark in marks:
        piece, found, text = text.partition(mark)
        if not found:
            raise ModelUnsupported("the chat template does not show the turns of a conversation in their order")
        pieces.append(piece)
    pieces.append(text)
    if any(mark in piece for piece in pieces for mark in marks):
        raise ModelUnsupported("the chat template shows a turn of a conversation more than once")
    return pieces
