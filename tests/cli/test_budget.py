"""`kvboost budget`, `pin`, `index --budget --pin`: a store that is smaller than its documents, by the real script."""

from pathlib import Path

import pytest
from desks import Desk, assert_refused, prose

NUM_NOTES = 12
NUM_FITTING = 5


@pytest.fixture
def full(bare_desk: Desk) -> Desk:
    """Notes of more than twice as many bytes as the budget; the first two are stored and pinned."""
    for number in range(NUM_NOTES):
        bare_desk.write(f"notes/{number:02}.md", prose(number, 20))
    bare_desk.facts("index", "notes/00.md", "--bits", "16", "--pin")
    budget = NUM_FITTING * bare_desk.facts("stats")["bytes"]["disk"]
    bare_desk.facts("index", "notes/01.md", "--budget", str(budget), "--pin")
    return bare_desk


def note(desk: Desk, number: int) -> Path:
    return desk.root / "notes" / f"{number:02}.md"


def test_a_store_keeps_its_budget_its_pins_and_its_answers(full: Desk) -> None:
    budget = full.facts("budget")["budget"]
    told = full.facts("index", "notes")
    assert (told["documents"]["added"], told["documents"]["unchanged"]) == (NUM_NOTES - 2, 2)
    state = full.facts("budget")
    assert (state["budget"], state["keep_free"]) == (budget, 500_000_000)
    assert state["disk"] == sum(path.stat().st_size for path in full.store.iterdir()) <= 1.02 * budget
    assert state["pinned"] == [str(note(full, 0)), str(note(full, 1))]
    assert state["evictions"] == told["evicted"]
    assert state["chunks"]["evicted"] > 0
    again = full.facts("index", "notes")
    assert (again["documents"]["unchanged"], again["tokens_encoded"]) == (NUM_NOTES, 0)
    assert [hit_of(full, number) for number in (0, 2, 2)] == ["exact", "miss", "exact"], "it was brought back"
    check_smaller_budget(full, budget)


def check_smaller_budget(full: Desk, budget: int) -> None:
    """It takes effect at once, and the store is sound."""
    smaller = int(0.7 * budget)
    after = full.facts("budget", str(smaller))
    assert after["disk"] <= smaller
    stats = full.facts("stats")
    assert (stats["bytes"]["disk"], stats["bytes"]["budget"]) == (after["disk"], smaller)
    assert (stats["pinned"], stats["documents"]) == (2, NUM_NOTES)
    assert stats["evicted"] == after["chunks"]["evicted"] > 0
    assert full.facts("doctor", "--check")["healthy"]
    assert full.facts("pin", "--remove", "00.md")["changed"] == [str(note(full, 0))]
    assert full.run("pin").stdout == f"pinned: {note(full, 1)}\n"
    assert full.facts("budget", "none")["budget"] is None


def hit_of(desk: Desk, number: int) -> str:
    told = desk.facts("ask", "What is it?", "-d", note(desk, number))
    (document,) = told["documents"]
    return str(document["hit"])


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        (("budget", "20 parsecs"), "a size such as 500MB or 2GiB: '20 parsecs'"),
        (("budget", "20"), "1,000,000"),
        (("budget", "--keep-free", "much"), "much"),
        (("pin", "nowhere.md"), "nowhere.md"),
        (("pin", "--remove"), "name the documents"),
        (("index", "notes", "--budget", "5GB", "--dry-run"), "dry run"),
    ],
)
def test_what_cannot_be_is_refused(desk: Desk, args: tuple[str, ...], fact: str) -> None:
    assert_refused(desk.run(*args), 2, fact)


def test_commands_about_the_budget_start_without_torch(desk: Desk) -> None:
    for args in (("budget",), ("pin", "on-call.md"), ("budget", "80MB")):
        done = desk.with_env(PYTHONPROFILEIMPORTTIME="1").run(*args)
        assert done.returncode == 0
        assert " torch" not in done.stderr
