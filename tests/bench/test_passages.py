"""Passages of a folder's documents: long enough, each from a paragraph of its own, no two with one name."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from samples import make_text

from kvboost_cli.bench.errors import TooFewPassages
from kvboost_cli.bench.passages import Passage, PassageWish, cut_passages, find_sources, is_source_code
from kvboost_cli.model.codec import TextCodec


def cut(
    folder: Path, codec: TextCodec, count: int = 6, needed: int = 2, num_tokens: int = 120, seed: int = 1
) -> list[Passage]:
    return cut_passages(find_sources(folder), PassageWish(count, needed, num_tokens, seed), codec, folder)


def test_passages_have_about_the_wanted_length_and_begin_at_paragraphs(bench_docs: Path, codec: TextCodec) -> None:
    paragraphs = [text for path in bench_docs.iterdir() for text in path.read_text().strip().split("\n\n")]
    for passage in cut(bench_docs, codec):
        assert abs(len(codec.token_ids(passage.text)) - 120) <= 2
        assert any(paragraph.startswith(passage.text.split("\n\n")[0]) for paragraph in paragraphs)


def test_each_file_gives_one_before_any_gives_two(bench_docs: Path, codec: TextCodec) -> None:
    stems = [passage.name[4:] for passage in cut(bench_docs, codec, count=12)]
    assert sorted(stems[:6]) == sorted(path.name for path in bench_docs.iterdir())
    assert len(stems) == 12


def test_a_seed_gives_the_same_passages_and_a_smaller_count_the_first_of_them(
    bench_docs: Path, codec: TextCodec
) -> None:
    assert cut(bench_docs, codec) == cut(bench_docs, codec)
    assert cut(bench_docs, codec, count=3) == cut(bench_docs, codec)[:3]
    assert cut(bench_docs, codec, seed=2) != cut(bench_docs, codec)


def test_names_differ_and_keep_the_suffix(bench_docs: Path, codec: TextCodec) -> None:
    names = [passage.name for passage in cut(bench_docs, codec, count=12)]
    assert len(set(names)) == 12
    assert {Path(name).suffix for name in names} == {".md"}


def test_passages_of_a_file_do_not_overlap(tmp_path: Path, codec: TextCodec) -> None:
    text = make_text(7, num_paragraphs=12)
    (tmp_path / "long.txt").write_text(text)
    passages = cut(tmp_path, codec, count=50)
    spans = sorted((text.index(passage.text), len(passage.text)) for passage in passages)
    assert all(start + length <= after for (start, length), (after, _) in pairwise(spans))
    assert len(passages) >= 5


def test_copies_and_what_cannot_be_read_are_left_out(tmp_path: Path, bench_docs: Path, codec: TextCodec) -> None:
    for name in ("one.md", "copy.md"):
        shutil.copy(bench_docs / "note-0.md", tmp_path / name)
    shutil.copy(bench_docs / "note-1.md", tmp_path / "other.md")
    (tmp_path / "empty.md").touch()
    texts = [passage.text for passage in cut(tmp_path, codec, count=50, num_tokens=600)]
    assert len(texts) == len(set(texts)) == 2


def test_html_becomes_markdown(tmp_path: Path, codec: TextCodec) -> None:
    body = "".join(f"<p>{text}</p>" for text in make_text(3).split("\n\n"))
    (tmp_path / "page one.html").write_text(f"<html><body>{body}</body></html>")
    passage, *_ = cut(tmp_path, codec, needed=1)
    assert passage.name == "000-page-one.md"
    assert "<" not in passage.text


def test_too_few_passages_are_an_error_with_both_numbers(tmp_path: Path, codec: TextCodec) -> None:
    (tmp_path / "short.md").write_text("Only a line.\n")
    (tmp_path / "long.md").write_text(make_text(1))
    with pytest.raises(TooFewPassages, match=r"give 1 passages of 600 tokens, and 2 are needed: "):
        cut(tmp_path, codec, num_tokens=600)


def test_source_code_is_told_by_its_name(tmp_path: Path) -> None:
    for name in ("tool.py", "notes.md"):
        (tmp_path / name).write_text("x = 1\n")
    assert [is_source_code(source) for source in find_sources(tmp_path)] == [False, True]
