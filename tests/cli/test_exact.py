"""`--exact` and `--order`: documents that are exact when asked alone or first, and what puts one there."""

from pathlib import Path
from typing import Any

import pytest
from desks import Desk, assert_refused, prose

QUESTION = "Who is on call, and when is the week handed over?"


def asked(told: Any) -> list[tuple[str, str]]:
    """File name and hit of each document."""
    return [(Path(document["path"]).name, document["hit"]) for document in told["documents"]]


def test_a_document_asked_alone_is_full_prefill_to_quantization_noise(desk: Desk) -> None:
    told = desk.facts("ask", QUESTION, "-d", "on-call.md", "--verify")
    assert asked(told) == [("on-call.md", "exact")]
    tokens = told["tokens"]
    assert (tokens["reused"], tokens["repaired"]) == (0, 0)
    assert tokens["exact"] + tokens["prefilled"] == tokens["prompt"]
    assert tokens["prefilled"] < 100, "the question and what closes the prompt"
    content = desk.facts("ask", QUESTION, "-d", "on-call.md", "--verify", "--system", "You are terse.")
    assert asked(content) == [("on-call.md", "content")]
    assert told["verify"]["kl_mean"] < content["verify"]["kl_mean"] / 10


def test_index_counts_exact_tokens_beside_those_of_chunks(bare_desk: Desk) -> None:
    access = bare_desk.docs / "access.md"
    dry = bare_desk.facts("index", access, "--dry-run")
    first = bare_desk.facts("index", access)
    assert (dry["tokens_encoded"], dry["tokens_exact"]) == (0, 0)
    assert first["tokens_encoded"] == bare_desk.facts("stats")["tokens"]
    assert first["tokens_encoded"] == first["tokens_exact"], "header and chunks in both"
    again = bare_desk.facts("index", access)
    assert (again["tokens_encoded"], again["tokens_exact"], again["bytes_written"]) == (0, 0, 0)
    shown = bare_desk.run("index", bare_desk.docs / "buoys.md").stdout
    assert "exact behind the preamble: " in shown


def test_without_exact_a_store_takes_half_the_bytes_and_all_is_found_by_content(bare_desk: Desk) -> None:
    access = bare_desk.docs / "access.md"
    bare = bare_desk.facts("index", access, "--no-exact")
    assert bare["tokens_exact"] == 0
    stats = bare_desk.facts("stats")
    assert stats["models"][0]["recipe"]["exact"] is False
    assert asked(bare_desk.facts("ask", QUESTION, "-d", access)) == [("access.md", "content")]
    refused = bare_desk.run("index", access, "--exact")
    assert_refused(refused, 1, "was built with other settings: exact is False there and True here")
    forced = bare_desk.facts("index", access, "--exact", "--force")
    assert forced["bytes_written"] > 1.7 * bare["bytes_written"]
    assert bare_desk.facts("stats")["bytes_per_token"] == stats["bytes_per_token"], "of chunks alone"
    assert asked(bare_desk.facts("ask", QUESTION, "-d", access)) == [("access.md", "exact")]


def test_exact_is_a_setting_of_the_environment_too(bare_desk: Desk) -> None:
    desk = bare_desk.with_env(KVBOOST_EXACT="false", KVBOOST_ORDER="exact")
    assert desk.facts("index", desk.docs / "access.md")["tokens_exact"] == 0
    assert asked(desk.facts("ask", QUESTION, "-d", "access.md")) == [("access.md", "content")]
    wrong = bare_desk.with_env(KVBOOST_EXACT="perhaps")
    assert_refused(wrong.run("index", desk.docs), 2, "KVBOOST_EXACT should be true or false")


def test_the_order_by_score_puts_the_best_document_first_though_it_was_named_last(desk: Desk) -> None:
    named = ("-d", "access.md", "-d", "reviews.md", "-d", "on-call.md")
    given = desk.facts("ask", QUESTION, *named)
    told = desk.facts("ask", QUESTION, *named, "--order", "score")
    assert asked(given)[0] == ("access.md", "exact")
    assert asked(told)[0] == ("on-call.md", "exact")
    assert told["tokens"]["prompt"] == given["tokens"]["prompt"]


def test_the_order_by_exact_tokens_puts_the_stored_document_before_a_new_one(desk: Desk) -> None:
    new = desk.write("new.md", prose(1))
    named = ("-d", str(new), "-d", "access.md")
    told = desk.facts("ask", QUESTION, *named, "--order", "exact", "--no-cache")
    assert [name for name, _hit in asked(told)] == ["access.md", "new.md"]
    told = desk.facts("ask", QUESTION, *named, "--order", "exact")
    assert asked(told) == [("access.md", "exact"), ("new.md", "miss")]
    assert asked(desk.facts("ask", QUESTION, *named)) == [("new.md", "exact"), ("access.md", "content")]


@pytest.mark.parametrize("order", ["best", ""])
def test_an_order_that_is_none_is_refused(desk: Desk, order: str) -> None:
    assert_refused(desk.run("ask", QUESTION, "--order", order), 2, "--order should be given, score or exact")
