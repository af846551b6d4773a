"""Any text is a question; none is a syntax error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvboost_cli.retrieval import SearchIndex
from kvboost_cli.retrieval.terms import MAX_TERMS, match_expression


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    path: Path = tmp_path_factory.mktemp("index") / "search.sqlite"
    with SearchIndex(path) as made:
        made.replace_document(
            "a", "h", ["near and or not body match cache", "emoji \U0001f600 e\u0301t\u00e9 \u7f13\u5b58"]
        )
        yield made


OPERATORS = (
    "AND",
    "OR",
    "NOT",
    "NEAR(",
    "*",
    "^",
    '"',
    "'",
    "(",
    ")",
    "{",
    "}",
    ":",
    "body:",
    "-",
    "+",
    ",",
    ";--",
    "\0",
)
pieces = st.sampled_from(OPERATORS) | st.text(max_size=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(pieces, max_size=12), st.sampled_from(["", " "]))
def test_any_question_is_answered_without_error(index: SearchIndex, parts: list[str], between: str) -> None:
    hits = index.search(between.join(parts), 5)
    assert len(hits) <= 2
    assert index.search(between.join(parts), 5) == hits


@pytest.mark.parametrize(
    "question", ["", "   ", "?!", '"', "* * *", "\U0001f600", "\0", "\ud800", "\u0301", "()", "_", "\u3002"]
)
def test_a_question_without_a_term_finds_nothing(index: SearchIndex, question: str) -> None:
    assert index.search(question, 5) == []


@pytest.mark.parametrize(
    "question",
    ["NEAR", "near(cache*)", '"cache', "body:cache", "cache OR", "-cache", "cache;DROP TABLE chunks", "ca\0che cache"],
)
def test_operators_are_only_words(index: SearchIndex, question: str) -> None:
    assert [hit.chunk_index for hit in index.search(question, 5)] == [0]


@pytest.mark.parametrize(
    "question",
    [
        "cache " + " ".join(f"word{number}" for number in range(14_000)),
        "cache " * 17_000,
        "cache " + "x" * 100_000,
        "cache " + "\u7f13" * 100_000,
        "cache " + '"' * 100_000,
        "cache " + "e\u0301" * 50_000,
    ],
    ids=["words", "repeated", "one word", "chinese", "quotes", "marks"],
)
def test_a_question_of_100_kilobytes_is_answered(index: SearchIndex, question: str) -> None:
    assert index.search(question, 5)[0].chunk_index == 0


def test_the_expression() -> None:
    assert match_expression("What is the KV cache of a model?") == '"kv" OR "cache" OR "model"'
    assert match_expression("to be or not to be") == '"to" OR "be" OR "or" OR "not"'
    assert match_expression("v3.11 foo_bar") == '"v3" OR "11" OR "foo" OR "bar"'
    assert match_expression("\u6587\u6863\u5e93 \u6587") == '"\u6587 \u6863" OR "\u6863 \u5e93" OR "\u6587"'
    expression = match_expression(" ".join(f"w{number}" for number in range(1000)))
    assert expression is not None
    assert expression.count('"') == 2 * MAX_TERMS
