"""Passages of real documents: the text that a benchmark's prompts are made of."""

import random
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from ..documents import DocumentError, SourceFile, discover, read_document
from ..documents.kinds import kind_of
from ..model.codec import TextCodec
from .errors import TooFewPassages

MAX_CHARACTERS = 400_000
"""As much of a document as passages are cut from."""

MAX_STEM = 40
PARAGRAPH = re.compile(r"\A|\n\n+")
CONVERTED = {"html": ".md", "pdf": ".txt"}
"""What a passage of a converted document is named, so that it is not converted again."""


@dataclass(frozen=True)
class Passage:
    """A stretch of a document, from the start of a paragraph. No other passage cut with it has its ``name``."""

    name: str
    text: str


@dataclass(frozen=True)
class PassageWish:
    """How many passages to cut, of how many tokens; fewer than ``needed`` are an error."""

    count: int
    needed: int
    num_tokens: int
    seed: int


def find_sources(folder: Path) -> list[SourceFile]:
    """The files below a folder that ``index`` would read. Raises ``PathNotFound``."""
    return [item for item in discover([folder]) if isinstance(item, SourceFile)]


def is_source_code(source: SourceFile) -> bool:
    """Whether a file's name says that it is code."""
    return kind_of(source.path.name, b"") == "code"


def cut_passages(sources: Sequence[SourceFile], wish: PassageWish, codec: TextCodec, folder: Path) -> list[Passage]:
    """Up to ``wish.count`` passages, of as many files as possible, in an order and from places chosen by the seed.

    A smaller count gives the first of the same passages, as long as there are files enough. Unreadable files are left
    out. Raises ``TooFewPassages``.
    """
    shuffled = list(sources)
    random.Random(f"{wish.seed}/files").shuffle(shuffled)
    cut = (_cut_file(source, wish, codec) for source in shuffled)
    by_file = islice((passages for passages in cut if passages), wish.count)
    in_rounds = chain.from_iterable(zip_longest(*by_file))
    name_of_text = {passage.text: passage.name for passage in in_rounds if passage is not None}  # copies count once
    chosen = [Passage(f"{i:03d}-{name}", text) for i, (text, name) in enumerate(name_of_text.items())][: wish.count]
    if len(chosen) < wish.needed:
        raise TooFewPassages(
            f"the documents give {len(chosen)} passages of {wish.num_tokens:,} tokens, and {wish.needed} are needed: "
            f"{folder}"
        )
    return chosen


def _cut_file(source: SourceFile, wish: PassageWish, codec: TextCodec) -> list[Passage]:
    try:
        document = read_document(source)
    except DocumentError:
        return []  # `index` is there to tell about those
    stem = re.sub(r"[^\w.-]+", "-", source.path.stem)[:MAX_STEM]
    name = stem + CONVERTED.get(document.kind, source.path.suffix)
    passages = [Passage(name, text) for text in _cut(document.text.strip()[:MAX_CHARACTERS], wish.num_tokens, codec)]
    random.Random(f"{wish.seed}/{document.content_hash}").shuffle(passages)
    return passages


def _cut(text: str, num_tokens: int, codec: TextCodec) -> Iterator[str]:
    """Stretches of ``num_tokens`` tokens that do not overlap."""
    _ids, spans = codec.tokenize(text)
    starts = [start for start, _end in spans]
    end = 0
    for paragraph in PARAGRAPH.finditer(text):
        start = paragraph.end()
        first = bisect_left(starts, start)
        if start >= end and first + num_tokens <= len(spans):
            end = spans[first + num_tokens - 1][1]
            yield text[start:end]
