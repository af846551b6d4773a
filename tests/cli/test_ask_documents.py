"""`kvboost ask`: which documents go into the prompt, and what is kept of those that were not stored."""

from pathlib import Path
from typing import Any

from desks import Desk, assert_refused, prose

QUESTION = "Who is on call, and when is the week handed over?"


def asked(told: Any) -> list[tuple[str, str]]:
    """File name and hit of each document."""
    return [(Path(document["path"]).name, document["hit"]) for document in told["documents"]]


def test_the_order_of_the_flags_is_the_order_of_the_prompt_even_twice_the_same(desk: Desk) -> None:
    told = desk.facts("ask", QUESTION, "-d", "reviews.md", "-d", desk.docs / "access.md", "-d", "docs/reviews.md")
    assert asked(told) == [("reviews.md", "exact"), ("access.md", "content"), ("reviews.md", "content")]


def test_search_picks_the_documents_for_a_question_from_standard_input(desk: Desk) -> None:
    told = desk.facts("ask", "-", "--top-k", "2", stdin=b"Who is on call \xff at night?\n")
    assert asked(told)[0] == ("on-call.md", "exact")
    assert len(told["documents"]) == 2


def test_an_unindexed_file_is_answered_about_and_kept(desk: Desk) -> None:
    file = desk.write("new.md", prose(1))
    first = desk.facts("ask", QUESTION, "-d", "new.md")
    assert asked(first) == [("new.md", "miss")]
    assert desk.facts("stats")["documents"] == 9
    assert asked(desk.facts("ask", QUESTION, "-d", "new.md")) == [("new.md", "exact")]
    file.write_text(prose(2))
    changed = desk.facts("ask", QUESTION, "-d", "new.md")
    assert asked(changed) == [("new.md", "miss")]
    assert desk.facts("index", file)["documents"]["unchanged"] == 1, "the new version was kept"
    file.unlink()
    assert_refused(
        desk.run("ask", QUESTION, "-d", "new.md"),
        2,
        f"the document cannot be read any more (No such file or directory): {file}",
    )


def test_a_name_that_fits_several_or_no_document_is_refused(desk: Desk) -> None:
    copy = desk.write("notes/access.md", (desk.docs / "access.md").read_text())
    assert desk.run("index", copy, "-q").returncode == 0
    assert_refused(desk.run("ask", "Why?", "-d", "access.md"), 2, "2 documents end in this name, ")
    refused = {
        "acess.md": "there is no such document or file (did you mean access.md?): acess.md",
    }
    for name, fact in refused.items():
        assert_refused(desk.run("ask", "Why?", "-d", name), 2, fact)


def test_a_named_file_without_text_is_refused(desk: Desk) -> None:
    blob = desk.write("blob", b"\0\1\2" * 99)
    assert_refused(desk.run("ask", "Why?", "-d", blob), 1, f"a binary file: {blob}")


def test_a_question_without_text_is_refused(desk: Desk) -> None:
    assert_refused(desk.run("ask", " \n"), 2, "the question is empty")
    assert_refused(desk.run("ask", "-", "-d", "access.md"), 2, "the question is empty")


def test_a_question_with_no_word_of_the_documents_is_refused(desk: Desk) -> None:
    assert_refused(desk.run("ask", "zzzqqq xyzzy"), 1, "no indexed document has a word of the question: zzzqqq xyzzy")


def test_a_prompt_that_is_too_long_is_refused_with_figures_and_names(desk: Desk) -> None:
    args = [
        part
        for name in ("access", "backups", "buoys", "on-call", "reviews", "services")
        for part in ("-d", f"{name}.md")
    ]
    done = desk.run("ask", QUESTION, *args)
    assert_refused(done, 1, "the prompt does not fit the model's context of 4,096 tokens; the largest documents are ")
    assert "on-call.md (" in done.stderr
    assert "drop a document" in done.stderr
    question = desk.run("ask", "-", "-d", "access.md", stdin="which wave? " * 9000)
    assert_refused(question, 1, "the prompt does not fit the model's context of 4,096 tokens")


def test_text_of_special_tokens_in_document_and_question_is_plain_text(desk: Desk) -> None:
    file = desk.write("special.md", "<|im_end|>" * 20 + "\n")
    told = desk.facts("ask", "<|im_end|>" * 20, "-d", file)
    num_document_tokens = told["documents"][0]["tokens"]
    assert num_document_tokens > 80, "20 tokens if they were taken for what they look like"
    assert told["tokens"]["prompt"] - num_document_tokens > 80


def test_a_document_whose_name_is_no_text_is_asked_about(desk: Desk) -> None:
    name = b"bytes-\xff.md".decode("utf-8", "surrogateescape")
    desk.write(name, prose(1))
    assert desk.facts("ask", QUESTION, "-d", name)["documents"][0]["hit"] == "miss"


def test_a_store_is_made_for_the_first_question_but_not_for_full_prefill(bare_desk: Desk) -> None:
    access = bare_desk.docs / "access.md"
    full = bare_desk.facts("ask", QUESTION, "-d", access, "--no-cache")
    assert not bare_desk.store.exists()
    assert full["tokens"]["prefilled"] == full["tokens"]["prompt"]
    first = bare_desk.facts("ask", QUESTION, "-d", access)
    assert asked(first) == [("access.md", "miss")]
    assert first["answer"] == full["answer"]
    assert bare_desk.facts("stats")["documents"] == 1
