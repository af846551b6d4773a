"""The tasks: prompts over passages of real documents, with made-up facts between their paragraphs.

A task is a function ``(chance, passages) -> TaskPrompt`` in ``TASKS``. All that it draws comes from ``chance``, so a
seed gives the same prompts again. Names and numbers differ within a prompt, and no number is in a passage already.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import UnknownTask
from .passages import Passage

ANIMALS = (
    "Badger", "Beaver", "Bison", "Cobra", "Coyote", "Dolphin", "Falcon", "Gecko", "Gibbon", "Heron", "Ibex", "Jackal",
    "Kestrel", "Lemur", "Lynx", "Marten", "Mole", "Osprey", "Otter", "Panther", "Pelican", "Puffin", "Raven", "Salmon",
    "Stork", "Tapir", "Toucan", "Walrus", "Weasel", "Wombat", "Yak", "Zebra",
)  # fmt: skip
NUMBERS = range(1000, 10000)
LIST_LINES = (12, 20)
ANSWER_TOKENS = 24
LONG_ANSWER_TOKENS = 40
"""For an answer that names two codes."""


@dataclass(frozen=True)
class TaskDocument:
    """A document to be written: its file name, which the prompt shows, and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class TaskPrompt:
    """Documents in prompt order, a question, and the numbers that a right answer contains: none if it cannot be told.

    The answer has at most ``answer_tokens`` tokens.
    """

    task: str
    documents: tuple[TaskDocument, ...]
    question: str
    expected: tuple[str, ...]
    answer_tokens: int = ANSWER_TOKENS

    def is_right(self, answer: str) -> bool | None:
        """Whether the answer contains all expected numbers, each as a whole; None if none are expected.

        >>> TaskPrompt("fact", (), "", ("4987",)).is_right("It is 4987.")
        True
        """
        if not self.expected:
            return None
        return set(self.expected) <= set(re.findall(r"\d+", answer))


@dataclass(frozen=True)
class Fact:
    """A made-up name with its number."""

    name: str
    number: str


Task = Callable[[random.Random, Sequence[Passage]], TaskPrompt]


def make_prompts(
    task: str, passages: Sequence[Passage], num_prompts: int, num_documents: int, seed: int
) -> list[TaskPrompt]:
    """``num_prompts`` prompts of ``num_documents`` passages each; as long as there are enough, no two share any."""
    return [
        TASKS[task](random.Random(f"{seed}/{task}/{i}"), _deal(passages, num_documents, i, seed))
        for i in range(num_prompts)
    ]


def parse_tasks(text: str) -> tuple[str, ...]:
    """The tasks of a list such as ``fact,summary``, each once. Raises ``UnknownTask``."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in TASKS:
            raise UnknownTask(f"the tasks are {', '.join(TASKS)}, and not: {name!r}")
    return names


def _deal(passages: Sequence[Passage], count: int, number: int, seed: int) -> Sequence[Passage]:
    first = number * count
    if first + count <= len(passages):
        return passages[first : first + count]
    return random.Random(f"{seed}/deal/{number}").sample(passages, count)


def fact(chance: random.Random, passages: Sequence[Passage]) -> TaskPrompt:
    """One document holds a fact, and the question asks for it."""
    (asked,) = _draw_facts(chance, passages, 1)
    first, *others = passages
    documents = [_with_paragraph(chance, first, _access_code(asked)), *map(_plain, others)]
    return _prompt(chance, "fact", documents, _access_question(asked), [asked])


def lookalikes(chance: random.Random, passages: Sequence[Passage]) -> TaskPrompt:
    """Every document holds a fact of the same form, and the question asks for one."""
    facts = _draw_facts(chance, passages, len(passages))
    documents = [
        _with_paragraph(chance, passage, _access_code(one)) for passage, one in zip(passages, facts, strict=True)
    ]
    return _prompt(chance, "lookalikes", documents, _access_question(facts[0]), facts[:1])


def summary(chance: random.Random, passages: Sequence[Passage]) -> TaskPrompt:
    """The question asks for a summary of one document; whether it is right cannot be told."""
    question = f"Summarize the document {passages[0].name} in two sentences."
    return _prompt(chance, "summary", list(map(_plain, passages)), question, [])


def two(chance: random.Random, passages: Sequence[Passage]) -> TaskPrompt:
    """Two documents hold a fact each, and the answer needs both."""
    facts = _draw_facts(chance, passages, 2)
    first, second, *others = passages
    documents = [
        _with_paragraph(chance, first, _access_code(facts[0])),
        _with_paragraph(chance, second, _access_code(facts[1])),
        *map(_plain, others),
    ]
    question = (
        f"What is the access code of the {facts[0].name} archive, "
        f"and what is the access code of the {facts[1].name} archive?"
    )
    return _prompt(chance, "two", documents, question, facts, LONG_ANSWER_TOKENS)


def code(chance: random.Random, passages: Sequence[Passage]) -> TaskPrompt:
    """One document holds a line of code that sets a value, and the question asks for the value."""
    (asked,) = _draw_facts(chance, passages, 1)
    first, *others = passages
    limit = f"{asked.name.upper()}_LIMIT"
    documents = [_with_paragraph(chance, first, f"    {limit} = {asked.number}"), *map(_plain, others)]
    return _prompt(chance, "code", documents, f"What is the value of {limit}?", [asked])


def list_entry(chance: random.Random, passages: Sequence[Passage]) -> TaskPrompt:
    """One document holds a long list, and the question asks for one entry."""
    facts = _draw_facts(chance, passages, chance.randint(*LIST_LINES))
    first, *others = passages
    lines = "\n".join(f"The {entry.name} is in room {entry.number}." for entry in facts)
    documents = [_with_paragraph(chance, first, lines), *map(_plain, others)]
    asked = chance.choice(facts)
    return _prompt(chance, "list", documents, f"Which room is the {asked.name} in?", [asked])


TASKS: dict[str, Task] = {
    "fact": fact,
    "lookalikes": lookalikes,
    "summary": summary,
    "two": two,
    "code": code,
    "list": list_entry,
}
"""By the name that ``--tasks`` takes."""

CODE_TASKS = frozenset({"code"})
"""Those whose passages come from source files, if a folder has some."""


def _draw_facts(chance: random.Random, passages: Sequence[Passage], count: int) -> list[Fact]:
    taken = {number for passage in passages for number in re.findall(r"\d+", passage.text)}
    free = [number for number in map(str, NUMBERS) if number not in taken]
    return [Fact(*pair) for pair in zip(chance.sample(ANIMALS, count), chance.sample(free, count), strict=True)]


def _access_code(one: Fact) -> str:
    return f"The access code of the {one.name} archive is {one.number}."


def _access_question(one: Fact) -> str:
    return f"What is the access code of the {one.name} archive?"


def _plain(passage: Passage) -> TaskDocument:
    return TaskDocument(passage.name, passage.text)


def _with_paragraph(chance: random.Random, passage: Passage, paragraph: str) -> TaskDocument:
    """The passage with one more paragraph: between two, or behind it if it has but one."""
    paragraphs = passage.text.split("\n\n")
    place = chance.randrange(1, max(2, len(paragraphs)))
    return TaskDocument(passage.name, "\n\n".join([*paragraphs[:place], paragraph, *paragraphs[place:]]))


def _prompt(
    chance: random.Random,
    task: str,
    documents: list[TaskDocument],
    question: str,
    expected: Sequence[Fact],
    answer_tokens: int = ANSWER_TOKENS,
) -> TaskPrompt:
    """The documents in random order."""
    shuffled = tuple(chance.sample(documents, len(documents)))
    return TaskPrompt(task, shuffled, question, tuple(one.number for one in expected), answer_tokens)
