"""Which places rank how, and that cuts take the best in reach."""

import random

import pytest

from kvboost_cli.documents import Rank, chunk_document
from kvboost_cli.documents.boundaries import find_boundaries

from .conftest import Tokenize, paragraph


def ranks(text: str) -> dict[str, Rank]:
    """The best rank in front of each boundary, by the text's next few characters."""
    found: dict[str, Rank] = {}
    for position, rank in find_boundaries(text):
        key = text[position:].split("\n")[0]
        found[key] = min(rank, found.get(key, Rank.INSIDE))
    return found


@pytest.mark.parametrize(
    "block",
    [
        "# Heading",
        "###### Deep heading ##",
        "Setext\n======",
        "Setext two\n---",
        "reST title\n~~~~~~~~~~",
        "Sub\n^^^",
        "def run(self):",
        "async def run():",
        "class Store:",
        "class Store(Base):",
        "@decorator\n# a comment\ndef run():",
        "# what it does\nfunction run() {",
        "export default class Store {",
        "pub(crate) fn run() -> u8 {",
        "impl Store for Disk {",
        "int main(int argc, char **argv) {",
        "func (s *Store) Get(key string) string {",
    ],
)
def test_a_block_begins_before_its_first_line(block: str) -> None:
    found = ranks(f"Some text.\n\nmore\n\n{block}\n    body text\n")
    assert found[block.split("\n")[0]] is Rank.BLOCK
    assert "======" not in found


def test_an_overlined_title_is_not_split() -> None:
    text = "text\n\n*****\nTitle\n*****\n\nbody\n"
    found = ranks(text)
    assert found["*****"] is Rank.BLOCK
    assert [text[position:][:5] for position, _ in find_boundaries(text)] == ["*****", "body\n"]


@pytest.mark.parametrize(
    "line",
    ["#hashtag", "####### seven", "a class of its own", "definition of terms", "--- no title ---", "if (x) y;"],
)
def test_what_only_looks_like_a_block_is_a_paragraph(line: str) -> None:
    assert ranks(f"text\n\n{line}\nmore\n")[line] is Rank.BLANK


def test_sentences_and_lines() -> None:
    text = 'It ends here. Next one, e.g. this, ends "now." Then by J. R. Smith\nwraps\nand stops.\nlast line'
    found = ranks(text)
    assert {key: rank.name for key, rank in found.items()} == {
        'Next one, e.g. this, ends "now." Then by J. R. Smith': "SENTENCE",
        "Then by J. R. Smith": "SENTENCE",
        "wraps": "LINE",
        "and stops.": "LINE",
        "last line": "SENTENCE",
    }


def test_sentences_without_spaces() -> None:
    text = "\u4e00\u4e8c\u3002\u4e09\u56db\uff01\u4e94"
    assert [(text[position], rank) for position, rank in find_boundaries(text)] == [
        ("\u4e09", Rank.SENTENCE),
        ("\u4e94", Rank.SENTENCE),
    ]


@pytest.mark.parametrize(("opener", "closer"), [("```", "```"), ("~~~ text", "~~~~"), ("````md", "````")])
def test_inside_a_fence_every_place_ranks_below_any_outside(opener: str, closer: str) -> None:
    text = f"text\n{opener}\n# no heading\n\ndef f(): pass\nx. Y\n{closer}\nafter\n"
    found = ranks(text)
    assert found["# no heading"] is Rank.FENCED_LINE
    assert found["def f(): pass"] is Rank.FENCED_BLANK
    assert found["x. Y"] is Rank.FENCED_LINE
    assert (text.rindex(closer), Rank.FENCED_LINE) in find_boundaries(text)
    assert found["after"] is Rank.LINE
    assert found[opener] is Rank.LINE
    assert "Y" not in found


def test_a_longer_fence_holds_a_shorter_one() -> None:
    found = ranks("````\n```\ninner\n\nstill\n```\n````\nout\n")
    assert found["still"] is Rank.FENCED_BLANK
    assert found["out"] is Rank.LINE


def test_a_fence_that_is_never_closed_is_none() -> None:
    text = "```\n" + "line\n" * 500 + "\nparagraph\n"
    assert ranks(text)["paragraph"] is Rank.BLANK
    assert ranks("```\ncode\n\nparagraph\n")["paragraph"] is Rank.BLANK


def test_cuts_spare_a_fence_when_another_boundary_is_in_reach(tokenize: Tokenize) -> None:
    rng = random.Random(4)
    code = "\n\n".join(f"value_{number} = store.read({number})" for number in range(16))
    parts = [part for _ in range(8) for part in (paragraph(rng), f"```python\n{code}\n```", paragraph(rng))]
    text = "\n\n".join(parts)
    starts = [text[chunk.start :] for chunk in chunk_document(text, tokenize)]
    assert len(starts) > 8
    assert not [start[:20] for start in starts if start.startswith("value_")]


def test_a_cut_prefers_a_heading_to_a_paragraph(tokenize: Tokenize) -> None:
    rng = random.Random(2)
    body = [paragraph(rng) for _ in range(6)]
    text = "\n\n".join([*body[:3], "# The heading", *body[3:]])
    assert any(text[chunk.start :].startswith("# The heading") for chunk in chunk_document(text, tokenize))
