"""Code fences of Markdown (``` and ~~~), judged so that one stray fence cannot turn a whole document inside out."""

import re
from collections.abc import Callable, Sequence

# An opener without a closer within so many lines is no fence.
MAX_FENCE_LINES = 400
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})([^`]*)$")


def fenced_lines(lines: Sequence[str], is_underline: Callable[[Sequence[str], int], bool]) -> list[bool]:
    """Tell for each line whether a cut in front of it would fall inside a fence.

    Unlike CommonMark, a fence line with an info string always opens: that is where a wrong count of fences heals.

    >>> fenced_lines(["```", "x", "```", "y"], lambda lines, index: False)
    [False, True, True, False]
    """
    fenced = [False] * len(lines)
    opener: tuple[int, str] | None = None
    for index, line in enumerate(lines):
        match = _FENCE.match(line)
        if opener is not None and index - opener[0] > MAX_FENCE_LINES:
            opener = None
        if match is None or is_underline(lines, index):
            continue
        mark, info = match[1], match[2].strip()
        if opener is None or (info and mark.startswith(opener[1])):
            opener = (index, mark)
        elif not info and mark.startswith(opener[1]):
            fenced[opener[0] + 1 : index + 1] = [True] * (index - opener[0])
            opener = None
    return fenced
