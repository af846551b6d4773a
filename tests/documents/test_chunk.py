"""Chunks: nothing lost, sizes kept, the same again, and an edit changes only what is near it."""

import random
import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvboost_cli.documents import MAX_TOKENS, MIN_TOKENS, Chunk, TokenizedText, chunk_document, plan_cuts

from .conftest import Tokenize, handbook, sentence

PIECES = (
    *(
        "# heading\n",
        "Title\n=====\n",
        "\n",
        "\n\n\n",
        "\r\n",
        "\r",
        "    indented\n",
        "```\n",
        "~~~ x\n",
        "def f(a):\n",
    ),
    *(
        "word ",
        "A sentence ends. Another ",
        "longwordwithoutspaces",
        "\u3000",
        "\u6f22\u5b57\u3002",
        "\U0001f469\u200d\U0001f4bb",
    ),
    *("e\u0301", "\U0001f1e9\U0001f1ea", "\0", "\ufffd", "| a | b |\n", "- item\n", "* * *\n", "@decorator\n"),
)
texts = st.lists(st.tuples(st.sampled_from(PIECES), st.integers(1, 120)), max_size=30).map(
    lambda runs: "".join(piece * count for piece, count in runs)
)
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def check(text: str, tokens: TokenizedText, chunks: tuple[Chunk, ...]) -> None:
    """What holds for every text."""
    assert [token for chunk in chunks for token in chunk.token_ids] == list(tokens.ids)
    sizes = [len(chunk.token_ids) for chunk in chunks]
    assert all(size <= MAX_TOKENS for size in sizes)
    assert len(sizes) <= 1 or min(sizes) >= MIN_TOKENS
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert "".join(text[chunk.start : chunk.end] for chunk in chunks) == (text if chunks else "")
    assert all(before.end == after.start for before, after in pairwise(chunks))


@relaxed
@given(texts)
def test_any_text_comes_back_whole_in_chunks_of_the_right_size(tokenize: Tokenize, text: str) -> None:
    chunks = chunk_document(text, tokenize)
    check(text, tokenize(text), chunks)
    assert chunk_document(text, tokenize) == chunks


@relaxed
@given(texts)
def test_a_cut_falls_between_characters(tokenize: Tokenize, text: str) -> None:
    offsets = tokenize(text).offsets
    for cut in plan_cuts(text, offsets):
        place = offsets[cut][0]
        assert offsets[cut - 1][1] <= place
        assert text[place] not in "\u0301\u200d"
        assert text[place - 1 : place + 1] != "\r\n"


def test_a_tokenizer_with_gaps_overlaps_and_empty_tokens_is_served() -> None:
    text = " ".join(f"word{number}" for number in range(3000))
    words = [match.span() for match in re.finditer(r"\S+", text)]
    offsets = [span for start, end in words for span in ((start, start), (start, end), (start, end))]
    tokens = TokenizedText(range(len(offsets)), offsets)
    check(text, tokens, chunk_document(text, lambda _: tokens))


def test_one_character_larger_than_a_chunk_is_cut_after_all() -> None:
    tokens = TokenizedText(range(2000), [(0, 1)] * 2000)
    chunks = chunk_document("\u2603", lambda _: tokens)
    assert [token for chunk in chunks for token in chunk.token_ids] == list(range(2000))
    assert all(MIN_TOKENS <= len(chunk.token_ids) <= MAX_TOKENS for chunk in chunks)


@pytest.mark.parametrize("num_tokens", [0, 1, 127, 128, 255, 256, 257, 300, 512, 513, 640, 1000])
def test_sizes_at_the_edges(num_tokens: int) -> None:
    text = "x" * num_tokens
    tokens = TokenizedText([7] * num_tokens, [(place, place + 1) for place in range(num_tokens)])
    chunks = chunk_document(text, lambda _: tokens)
    check(text, tokens, chunks)
    assert (len(chunks) > 1) == (num_tokens > MAX_TOKENS)


def test_a_short_document_is_one_chunk_and_an_empty_one_none(tokenize: Tokenize) -> None:
    assert chunk_document("", tokenize) == ()
    (chunk,) = chunk_document("A short text.", tokenize)
    assert (chunk.index, chunk.start, chunk.end) == (0, 0, 13)


def test_a_line_of_100_000_characters_without_spaces(tokenize: Tokenize) -> None:
    rng = random.Random(1)
    text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=100_000))
    check(text, tokenize(text), chunk_document(text, tokenize))


@pytest.mark.parametrize(
    "unit",
    [
        "\u8fd9\u662f\u4e00\u4e2a\u6587\u6863",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f600",
        "z\u0351\u0352",
    ],
)
def test_signs_of_several_tokens_stay_whole(tokenize: Tokenize, unit: str) -> None:
    text = unit * 1000
    tokens = tokenize(text)
    chunks = chunk_document(text, tokenize)
    check(text, tokens, chunks)
    for chunk in chunks:
        assert list(tokenize(text[chunk.start : chunk.end]).ids) == list(chunk.token_ids)
        assert text[chunk.start] not in "\u200d\u0351\u0352"


def test_line_ends_of_two_characters_are_line_ends(tokenize: Tokenize) -> None:
    text = handbook(3)
    chunks = chunk_document(text.replace("\n", "\r\n"), tokenize)
    starts = [text.replace("\n", "\r\n")[chunk.start :][:3] for chunk in chunks]
    check(text.replace("\n", "\r\n"), tokenize(text.replace("\n", "\r\n")), chunks)
    assert sum(start == "## " for start in starts) > len(chunks) / 4
    assert not any(start.startswith("\n") for start in starts)


def test_chunks_are_about_256_tokens(tokenize: Tokenize) -> None:
    sizes = [len(chunk.token_ids) for seed in range(5) for chunk in chunk_document(handbook(seed), tokenize)]
    assert 200 < sum(sizes) / len(sizes) < 300


def edit(text: str, rng: random.Random) -> str:
    """Put a sentence in, or take one out, at a random place."""
    places = [match.end() for match in re.finditer(r"\. ", text)]
    place = rng.choice(places)
    if rng.random() < 0.5:
        return text[:place] + sentence(rng) + " " + text[place:]
    return text[:place] + text[text.index(".", place) + 1 :].lstrip(" ")


def test_an_edit_changes_only_the_chunks_near_it(tokenize: Tokenize) -> None:
    rng = random.Random(0)
    changed: list[int] = []
    for seed in range(8):
        text = handbook(seed, 40)
        before = {chunk.token_ids for chunk in chunk_document(text, tokenize)}
        for _ in range(10):
            after = chunk_document(edit(text, rng), tokenize)
            changed.append(sum(chunk.token_ids not in before for chunk in after))
    assert sum(changed) / len(changed) <= 1.6
    assert max(changed) <= 4


def test_two_documents_share_the_chunks_of_a_long_common_passage(tokenize: Tokenize) -> None:
    passage = handbook(11, 40)
    ids = [{c.token_ids for c in chunk_document(handbook(seed, 10) + passage, tokenize)} for seed in (1, 2)]
    alone = [chunk.token_ids for chunk in chunk_document(passage, tokenize)]
    assert sum(token_ids in ids[0] and token_ids in ids[1] for token_ids in alone) >= len(alone) - 2


def test_a_stray_fence_does_not_move_the_cuts_far_away(tokenize: Tokenize) -> None:
    text = handbook(5, 60)
    before = {chunk.token_ids for chunk in chunk_document(text, tokenize)}
    place = text.index("\n\n## 3.")
    after = chunk_document(text[:place] + "\n\n```" + text[place:], tokenize)
    assert sum(chunk.token_ids not in before for chunk in after) <= 12


def test_planning_is_pure() -> None:
    offsets = [(place, place + 1) for place in range(2000)]
    text = ("line of text\n" * 154)[:2000]
    cuts = plan_cuts(text, offsets)
    assert cuts == plan_cuts(text, tuple(offsets))
    assert all(text[cut - 1] == "\n" for cut in cuts)
