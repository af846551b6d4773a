"""Prompts made of passages: the same for a seed, with facts that are really there and can be told apart."""

import re

import pytest
from samples import make_text

from kvboost_cli.bench.errors import UnknownTask
from kvboost_cli.bench.passages import Passage
from kvboost_cli.bench.tasks import ANIMALS, TASKS, TaskPrompt, make_prompts, parse_tasks

PASSAGES = [Passage(f"{seed:03d}-text.md", f"In 1234 it was {seed + 5000}.\n\n{make_text(seed)}") for seed in range(12)]
WITH_FACTS = [task for task in TASKS if task != "summary"]
TEXT_OF_NAME = {passage.name: passage.text for passage in PASSAGES}
NUM_CHANGED = {"fact": 1, "lookalikes": 4, "summary": 0, "two": 2, "code": 1, "list": 1}


def prompts_of(task: str, seed: int = 1, num_prompts: int = 5) -> list[TaskPrompt]:
    return make_prompts(task, PASSAGES, num_prompts, 4, seed)


def added(prompt: TaskPrompt) -> dict[str, str]:
    """What the task put into each document that it changed."""
    told = {}
    for document in prompt.documents:
        before, after = TEXT_OF_NAME[document.name].split("\n\n"), document.text.split("\n\n")
        if before != after:
            told[document.name] = next(paragraph for paragraph in after if paragraph not in before)
            after.remove(told[document.name])
            assert after == before
    return told


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_gives_the_same_prompts_again(task: str) -> None:
    assert prompts_of(task) == prompts_of(task)
    assert prompts_of(task) != prompts_of(task, seed=2)


@pytest.mark.parametrize("task", TASKS)
def test_fewer_prompts_are_the_first_of_more(task: str) -> None:
    assert prompts_of(task, num_prompts=2) == prompts_of(task)[:2]


@pytest.mark.parametrize("task", TASKS)
def test_prompts_share_no_document_as_long_as_there_are_enough(task: str) -> None:
    names = [document.name for prompt in prompts_of(task)[:3] for document in prompt.documents]
    assert len(set(names)) == len(names) == 12


@pytest.mark.parametrize("task", TASKS)
def test_documents_of_a_prompt_differ_even_if_there_are_few(task: str) -> None:
    for prompt in make_prompts(task, PASSAGES[:5], 6, 4, 1):
        assert len({document.name for document in prompt.documents}) == 4


@pytest.mark.parametrize("task", TASKS)
def test_a_task_changes_as_many_documents_as_it_needs(task: str) -> None:
    assert {len(added(prompt)) for prompt in prompts_of(task)} == {NUM_CHANGED[task]}


@pytest.mark.parametrize("task", WITH_FACTS)
def test_expected_numbers_stand_in_the_documents_once(task: str) -> None:
    for prompt in prompts_of(task):
        numbers = re.findall(r"\d+", "\n".join(document.text for document in prompt.documents))
        assert prompt.expected
        assert [numbers.count(number) for number in prompt.expected] == [1] * len(prompt.expected)


@pytest.mark.parametrize("task", WITH_FACTS)
def test_names_and_numbers_of_a_prompt_differ(task: str) -> None:
    for prompt in prompts_of(task):
        facts = "\n".join(added(prompt).values())
        numbers = re.findall(r"\b\d{4}\b", facts)
        names = [word for word in re.findall(r"[A-Za-z]+", facts.replace("_", " ")) if word.title() in ANIMALS]
        assert len(numbers) == len(names) == len(set(numbers)) == len(set(names))


@pytest.mark.parametrize("task", WITH_FACTS)
def test_the_question_names_what_the_expected_number_belongs_to(task: str) -> None:
    for prompt in prompts_of(task):
        for number in prompt.expected:
            (line,) = [line for text in added(prompt).values() for line in text.splitlines() if number in line]
            (name,) = [name for name in ANIMALS if name.lower() in re.split(r"[^a-z]+", line.lower())]
            assert name.lower() in prompt.question.lower()


def test_a_list_has_twelve_to_twenty_lines() -> None:
    lengths = {len(text.splitlines()) for prompt in prompts_of("list") for text in added(prompt).values()}
    assert lengths <= set(range(12, 21))


def test_documents_stand_in_random_order() -> None:
    places = {
        [document.name in added(prompt) for document in prompt.documents].index(True)
        for prompt in prompts_of("fact", num_prompts=30)
    }
    assert places == {0, 1, 2, 3}


def test_an_answer_is_right_with_all_numbers_each_as_a_whole() -> None:
    prompt = TaskPrompt("two", (), "?", ("4987", "1200"))
    assert prompt.is_right("The codes are 1200 and 4987.")
    assert not prompt.is_right("The code is 4987.")
    assert not prompt.is_right("The codes are 12004987.")
    assert TaskPrompt("summary", (), "?", ()).is_right("4987") is None


def test_there_are_names_enough_for_every_task() -> None:
    assert len(set(ANIMALS)) == len(ANIMALS) >= 24


def test_tasks_are_parsed_and_an_unknown_one_is_refused() -> None:
    assert parse_tasks("two, fact,two") == ("two", "fact")
    with pytest.raises(UnknownTask, match="'facts'"):
        parse_tasks("facts")
