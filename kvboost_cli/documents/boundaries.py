"""Where a text may be cut, ranked: pure string work, linear in the text.

Every judgement looks only at near-by lines, so that an edit changes boundaries near itself and nowhere else.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from .fences import fenced_lines


class Rank(IntEnum):
    """How good a place for a cut is, the best first."""

    BLOCK = 0  # before a heading, or a top-level definition in source code
    BLANK = 1  # after a blank line
    SENTENCE = 2
    LINE = 3
    FENCED_BLANK = 4  # after a blank line inside a code fence
    FENCED_LINE = 5
    TOKEN = 6  # between any two tokens, but not inside what a reader sees as one character
    INSIDE = 7  # anywhere: only where a single character fills a whole chunk


class Boundary(NamedTuple):
    """A place in front of text[position]."""

    position: int
    rank: Rank


_ATX = re.compile(r" {0,3}#{1,6}[ \t]+\S")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$|=+$")
_DEFINITION = re.compile(
    r"""(?:@\w
    |(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|static|abstract|final|async|unsafe|inline)[ ])*
     (?:def|class|function\*?|func|fn|fun|impl|struct|enum|trait|interface|namespace|module|union|sub)[ ]
     [^.;]*(?:[({:<;]|$)
    |[A-Za-z_][^;]*\)[^;]*\{$)""",
    re.VERBOSE,
)
_LEADS_IN = re.compile(r"@\w|#(?!include|define)|//|/\*| ?\*")
_CLOSERS = r"[\"')\]*_`\u2019\u201d\u300d\u300f\uff09]*"
_WIDE_STOPS = "\u3002\uff01\uff1f\uff61"  # the full stops and marks of Chinese and Japanese, with no space after them
_SENTENCE_END = re.compile(
    rf"[.!?\u2026]{_CLOSERS}[ \t]+(?=[\"'(\[*_`\u2018\u201c]*[^\W\d_a-z])|[{_WIDE_STOPS}]{_CLOSERS}(?=\S)"
)
_LINE_SENTENCE_END = re.compile(rf"[.!?:\u2026{_WIDE_STOPS}]{_CLOSERS}$")


def find_boundaries(text: str) -> list[Boundary]:
    """Return the places to cut `text`, in order of position; the text's own ends are not among them."""
    lines = [line.rstrip() for line in text.split("\n")]
    starts = _line_starts(text)
    fenced = fenced_lines(lines, _is_underline)
    blocks, glued = _find_blocks(lines, fenced)
    found: list[Boundary] = []
    for index, line in enumerate(lines):
        if not line:
            continue
        if index and index not in glued:
            found.append(Boundary(starts[index], _rank_line(lines, index, fenced[index], index in blocks)))
        if not fenced[index]:
            found.extend(_sentences(line, starts[index]))
    return found


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _rank_line(lines: Sequence[str], index: int, is_fenced: bool, is_block: bool) -> Rank:
    after_blank = not lines[index - 1]
    if is_fenced:
        return Rank.FENCED_BLANK if after_blank else Rank.FENCED_LINE
    if is_block:
        return Rank.BLOCK
    if after_blank:
        return Rank.BLANK
    return Rank.SENTENCE if _LINE_SENTENCE_END.search(lines[index - 1][-8:]) else Rank.LINE


def _sentences(line: str, start: int) -> Iterator[Boundary]:
    """Yield sentence ends inside a line; initials, "e.g." and list numbers are none."""
    for match in _SENTENCE_END.finditer(line):
        word = line[max(0, match.start() - 2) : match.start()]
        if line[match.start()] in _WIDE_STOPS or (len(word) == 2 and "." not in word and " " not in word):
            yield Boundary(start + match.end(), Rank.SENTENCE)


def _find_blocks(lines: Sequence[str], fenced: Sequence[bool]) -> tuple[set[int], set[int]]:
    """Return the lines that begin a heading or a definition, and those that must stay with the line above."""
    blocks: set[int] = set()
    glued: set[int] = set()
    for index, line in enumerate(lines):
        if not line or fenced[index]:
            continue
        if _ATX.match(line) and not (index and lines[index - 1].startswith("#")):
            blocks.add(index)
        elif _is_underline(lines, index):
            top = index - 2 if _has_overline(lines, index) else index - 1
            blocks.add(top)
            glued.update(range(top + 1, index + 1))
        elif _DEFINITION.match(line):
            blocks.add(_first_of_lead_in(lines, index))
    return blocks, glued


def _is_underline(lines: Sequence[str], index: int) -> bool:
    """Tell whether a line underlines the title above it (Markdown setext, reST)."""
    line = lines[index]
    if index == 0 or not _UNDERLINE.match(line):
        return False
    title = lines[index - 1]
    if not title or _UNDERLINE.match(title) or title.lstrip().startswith(("|", ">", "- ", "* ")):
        return False
    long_enough = len(line) >= len(title.strip()) or (line[0] in "=-" and not title[0].isspace())
    return long_enough and (index == 1 or not lines[index - 2] or _has_overline(lines, index))


def _has_overline(lines: Sequence[str], index: int) -> bool:
    above = index - 2
    return above >= 0 and lines[above] == lines[index] and (above == 0 or not lines[above - 1])


def _first_of_lead_in(lines: Sequence[str], index: int) -> int:
    """Go up from a definition over its decorators and comments."""
    while index and lines[index - 1] and _LEADS_IN.match(lines[index - 1]):
        index -= 1
    return index
