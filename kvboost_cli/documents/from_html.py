"""HTML to Markdown with beautifulsoup4, lxml and markdownify, all used only here.

The standard library's parser takes quadratic time on floods of open quotes or comments; lxml does not.
"""

import re
import warnings
from typing import TYPE_CHECKING

from .decode import clean_text, decode_text
from .errors import UnreadableDocument

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# markdownify works by recursion, some four Python frames a level.
_MAX_DEPTH = 100
_DROPPED = ("script", "style", "template", "noscript", "svg", "math", "iframe", "object")
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def html_to_markdown(name: str, data: bytes) -> str:
    """Convert a page to Markdown: headings, lists, tables and code are kept; links and pictures become their text.

    A title is put in front of a page without a first-level heading. Raises UnreadableDocument, UnknownEncoding.
    """
    from bs4.dammit import EncodingDetector

    declared = EncodingDetector.find_declared_encoding(data, is_html=True)
    return markup_to_markdown(name, decode_text(name, data, declared))


def markup_to_markdown(name: str, markup: str) -> str:
    """Convert decoded HTML as `html_to_markdown` does."""
    from markdownify import ATX, MarkdownConverter

    soup = _parse(name, markup)
    heading = _prepare(soup)
    converter = MarkdownConverter(
        heading_style=ATX,
        strip=["a", "img"],
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
    )
    try:
        body = converter.convert_soup(soup)
    except (RecursionError, ValueError, AttributeError, TypeError) as error:
        raise UnreadableDocument("HTML that cannot be converted", name) from error
    return _BLANK_LINES.sub("\n\n", clean_text(heading + body.strip("\n"))) + "\n"


def _parse(name: str, markup: str) -> "BeautifulSoup":
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # guesses about markup that looks like XML, a file name or a URL
            return BeautifulSoup(markup, "lxml")
    except (ParserRejectedMarkup, RecursionError, ValueError, AssertionError) as error:
        raise UnreadableDocument("HTML that cannot be parsed", name) from error


def _prepare(soup: "BeautifulSoup") -> str:
    """Take out what is not read, flatten what is nested absurdly, return the title as a heading, or ""."""
    title = " ".join(soup.title.get_text().split()) if soup.title is not None else ""
    for tag in soup.find_all([*_DROPPED, "head", "title"]):
        if not tag.decomposed:
            tag.decompose()
    for tag in _tags_at_depth(soup, _MAX_DEPTH):
        tag.string = tag.get_text("\n")
    return f"# {title}\n\n" if title and soup.h1 is None else ""


def _tags_at_depth(soup: "BeautifulSoup", depth: int) -> "list[Tag]":
    from bs4 import Tag

    level: list[Tag] = [soup]
    for _ in range(depth):
        level = [child for tag in level for child in tag.children if isinstance(child, Tag)]
    return level
