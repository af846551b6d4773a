"""The prompts that all candidates of a side-by-side benchmark get."""

from pathlib import Path

import pytest

from benchmarks.peers.prompts import SizedText, fill, reordered, write_texts

TEXTS = [SizedText("a.md", "Tea.", 300), SizedText("b.md", "Milk.", 200), SizedText("c.md", "Sugar.", 250)]


def total(texts: list[SizedText]) -> int:
    return sum(text.num_tokens for text in texts)


@pytest.mark.parametrize("num_tokens", range(500, 5000, 77))
def test_documents_come_nearest_to_the_wanted_size(num_tokens: int) -> None:
    chosen = fill(TEXTS, num_tokens)
    after = TEXTS[len(chosen) % len(TEXTS)].num_tokens
    error = abs(total(chosen) - num_tokens)
    assert error <= abs(total(chosen) + after - num_tokens)
    assert error <= abs(total(chosen[:-1]) - num_tokens)


def test_a_smaller_prompt_is_the_beginning_of_a_larger_one() -> None:
    assert fill(TEXTS, 4000)[: len(fill(TEXTS, 1300))] == fill(TEXTS, 1300)


def test_a_document_that_is_needed_again_has_another_name() -> None:
    chosen = fill(TEXTS, 4000)
    assert len({text.name for text in chosen}) == len(chosen) > len(TEXTS)
    assert {text.text for text in chosen} == {text.text for text in TEXTS}


def test_a_prompt_has_two_documents_at_least() -> None:
    assert [text.name for text in fill(TEXTS, 10)] == ["0-a.md", "0-b.md"]


@pytest.mark.parametrize("count", range(2, 9))
def test_reordered_prompts_have_nothing_in_common_but_their_documents(count: int) -> None:
    names = [f"{number}.md" for number in range(count)]
    orders = [reordered(names, turn) for turn in range(count - 1)]
    assert all(sorted(order) == names for order in orders)
    first = [names[0], *(order[0] for order in orders)]
    assert len(set(first)) == len(first)


def test_documents_are_written_as_files(tmp_path: Path) -> None:
    paths = write_texts(TEXTS, tmp_path)
    assert [Path(path).read_text(encoding="utf-8") for path in paths] == ["Tea.", "Milk.", "Sugar."]
