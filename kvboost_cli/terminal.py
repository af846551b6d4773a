"""What a terminal can show: how wide it is, whether it knows more than ASCII, and what is safe to send to it."""

import locale
import os
import textwrap
from typing import TextIO

FALLBACK_COLUMNS = 80
MIN_COLUMNS = 20
_CONTROLS = {code: "" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"}


def columns(stream: TextIO) -> int:
    """The width of the terminal behind ``stream``; ``COLUMNS`` goes before what it says itself."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or FALLBACK_COLUMNS
    except (OSError, ValueError):
        return FALLBACK_COLUMNS


def draws_unicode() -> bool:
    """Whether the locale's own encoding is UTF-8: in the C locale Python writes UTF-8 that nobody asked for."""
    return locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"


def folded(text: str, stream: TextIO, indent: int) -> str:
    """Lines that a terminal has room for, the rest of a long one indented.

    Words stay whole, paths and commands above all, and so do spaces at the beginning of a line.
    """
    width = max(columns(stream) - 1, MIN_COLUMNS)
    fold = textwrap.TextWrapper(
        width, subsequent_indent=" " * min(indent, width // 3), break_long_words=False, break_on_hyphens=False
    )
    lines = (line if len(line) <= width else fold.fill(line) for line in text.split("\n"))
    return "\n".join(lines)


def without_controls(text: str) -> str:
    """Text without characters that would move the cursor or change the terminal; lines and tabs stay.

    >>> without_controls("a\\x1b[31mb\\n")
    'a[31mb\\n'
    """
    return text.translate(_CONTROLS)
