"""From a question to an FTS5 query that cannot be a syntax error: every term is quoted, terms are joined by OR."""

import re
import unicodedata
from itertools import pairwise

# FTS5 evaluates each term's whole posting list; a pasted log file would be thousands of terms.
MAX_TERMS = 256
# Scripts written without spaces, and Hangul: indexed sign by sign, asked for in pairs of neighbours.
_SIGNS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_SIGN = re.compile(f"([{_SIGNS}])")
_RUN = re.compile(f"[{_SIGNS}]+|[^{_SIGNS}]+")
_WORDS = """
a about above after again against all also am an and any are aren as at be because been before being below between both
but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has
hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me
more most my myself no nor not now of off on once only or other our ours ourselves out over own please re s same she
should shouldn so some such t tell than that the their theirs them themselves then there these they this those through
to too under until up us ve very was wasn we were weren what when where which while who whom whose why will with won
would wouldn you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_WORDS.split())


def indexable(text: str) -> str:
    """Return text as the index takes it: encodable, without NUL, signs of unspaced scripts set apart."""
    encodable = text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
    return _SIGN.sub(r" \1 ", encodable)


def match_expression(question: str) -> str | None:
    """Return the FTS5 expression for any text, or None if it holds no usable term.

    Stop words are dropped unless nothing else is left; so is what comes after MAX_TERMS different terms.

    >>> match_expression('What is "NEAR(cache*"?')
    '"near" OR "cache"'
    """
    words = list(dict.fromkeys(_words(question)))
    chosen = [word for word in words if word not in STOP_WORDS] or words
    phrases = list(dict.fromkeys(phrase for word in chosen for phrase in _phrases(word)))
    return " OR ".join(f'"{phrase}"' for phrase in phrases[:MAX_TERMS]) or None


def _words(text: str) -> list[str]:
    """Split as FTS5's unicode61 does: letters, numbers, marks and private-use signs make words."""
    return "".join(char if _is_word_sign(char) else " " for char in text.lower()).split()


def _is_word_sign(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LNM" or category == "Co"


def _phrases(word: str) -> list[str]:
    """Turn a word into phrases: itself, or the pairs of neighbouring signs of an unspaced script.

    >>> _phrases("cache"), _phrases("\u6587\u6863\u5e93") == ["\u6587 \u6863", "\u6863 \u5e93"]
    (['cache'], True)
    """
    phrases: list[str] = []
    for run in _RUN.findall(word):
        is_unspaced = len(run) > 1 and _SIGN.match(run) is not None
        phrases += [" ".join(pair) for pair in pairwise(run)] if is_unspaced else [run]
    return phrases
