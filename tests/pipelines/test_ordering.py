"""``--order``: as given, by score, or the document with the most exact tokens first."""

from pathlib import Path

import pytest
from samples import Desk, ask_request, hit_kinds, make_text

from kvboost_cli.pipelines.asking import Stitched, start_answer
from kvboost_cli.pipelines.ordering import ORDERS
from kvboost_cli.pipelines.plan import Hit


def names(stitched: Stitched) -> list[str]:
    return [Path(document.name).stem for document in stitched.prompt.documents]


@pytest.fixture
def paths(desk: Desk) -> dict[str, Path]:
    """Documents about an animal each, of three lengths."""
    animals = {"short": ("zebra", 1), "middle": ("walrus", 2), "long": ("heron", 4)}
    return {
        name: desk.write(f"{name}.md", f"The {animal} lives here. " + make_text(seed, size))
        for seed, (name, (animal, size)) in enumerate(animals.items())
    }


def ask(desk: Desk, order: str, *documents: Path, **changes: object) -> Stitched:
    with desk.workspace() as workspace:
        return start_answer(workspace, ask_request(*documents, order=order, **changes)).stitched


def test_given_is_the_order_of_the_names(desk: Desk, paths: dict[str, Path]) -> None:
    desk.index()
    for order in (("short", "long", "middle"), ("long", "short", "long")):
        assert names(ask(desk, "given", *(paths[name] for name in order))) == list(order)


def test_by_score_the_best_named_document_comes_first(desk: Desk, paths: dict[str, Path]) -> None:
    desk.index()
    question = "Where is the walrus, the walrus and the heron?"
    named = ask(desk, "score", paths["short"], paths["long"], paths["middle"], question=question)
    assert names(named)[-1] == "short", "it is not found by this question"
    found = ask(desk, "score", question=question, top_k=2)
    assert names(named)[:2] == names(found) == names(ask(desk, "given", question=question, top_k=2))


def test_by_score_documents_that_are_not_found_keep_their_order_behind_the_others(
    desk: Desk, paths: dict[str, Path]
) -> None:
    desk.index()
    new = [desk.write(f"new{number}.md", make_text(number, 1)) for number in (2, 1)]
    given = (new[0], paths["short"], new[1], paths["middle"])
    assert names(ask(desk, "score", *given, question="walrus?")) == ["middle", "new2", "short", "new1"]
    assert names(ask(desk, "score", *given, question="xylophone?")) == ["new2", "short", "new1", "middle"]


def test_exact_puts_the_document_first_that_is_exact_for_the_most_tokens(desk: Desk, paths: dict[str, Path]) -> None:
    desk.index()
    stitched = ask(desk, "exact", paths["short"], paths["long"], paths["middle"])
    assert names(stitched) == ["long", "short", "middle"]
    assert hit_kinds(stitched) == [{Hit.EXACT}, {Hit.CONTENT}, {Hit.CONTENT}]
    given = ask(desk, "given", paths["short"], paths["long"], paths["middle"])
    assert len(stitched.plan.positions_with(Hit.EXACT)) > len(given.plan.positions_with(Hit.EXACT))


def test_exact_counts_what_is_stored_and_not_what_is_long(desk: Desk, paths: dict[str, Path]) -> None:
    desk.index(paths["short"], paths["middle"])
    stitched = ask(desk, "exact", paths["long"], paths["short"], paths["middle"])
    assert names(stitched) == ["middle", "long", "short"]
    desk.damage(desk.entry(paths["middle"]).position_keys[0], database="positions")
    assert names(ask(desk, "exact", paths["long"], paths["short"], paths["middle"])) == ["short", "long", "middle"]


def test_without_exact_kv_exact_is_as_given(desk: Desk, paths: dict[str, Path]) -> None:
    desk.exact = False
    desk.index()
    assert names(ask(desk, "exact", paths["short"], paths["long"])) == ["short", "long"]


def test_behind_another_preamble_exact_is_as_given(desk: Desk, paths: dict[str, Path]) -> None:
    desk.index()
    stitched = ask(desk, "exact", paths["short"], paths["long"], system="You are terse.")
    assert names(stitched) == ["short", "long"]
    assert hit_kinds(stitched) == [{Hit.CONTENT}, {Hit.CONTENT}]
    assert names(ask(desk, "exact", paths["short"], paths["long"])) == ["long", "short"]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_full_prefill_has_the_same_prompt_in_every_order(desk: Desk, paths: dict[str, Path], order: str) -> None:
    desk.index()
    given, question = [paths["short"], paths["long"]], "Where is the heron?"
    with_kv = ask(desk, order, *given, question=question)
    without = ask(desk, order, *given, question=question, no_cache=True)
    assert with_kv.prompt.token_ids == without.prompt.token_ids
