"""Which documents a conversation is about: those that are added, and which of them a name or a number means."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import glob

from store import ChunkStore

from .asked import AskedDocument, named_documents, resolve_name, suggest
from .errors import AmbiguousDocument, DocumentNotFound, NotInConversation
from .workspace import Workspace


def fetch_documents(workspace: Workspace, words: Sequence[str]) -> list[AskedDocument]:
    """The documents that names and patterns mean, each once, in their order.

    A name is what ``-d`` takes. A pattern such as ``'notes/*.md'`` means all files and all stored documents that fit.
    Raises ``DocumentNotFound``, ``AmbiguousDocument`` or a ``DocumentError`` of a file.
    """
    names = dict.fromkeys(name for word in words for name in _expand(workspace.store, word))
    return named_documents(workspace, list(names))


def _expand(store: ChunkStore, word: str) -> list[str]:
    path = os.path.expanduser(word)
    if not _is_pattern(word) or os.path.isfile(path):
        return [resolve_name(store, word)]
    files = [os.path.abspath(found) for found in sorted(glob(path, recursive=True)) if os.path.isfile(found)]
    with store.snapshot() as snapshot:
        stored = [name for name in snapshot.document_names() if _fits(name, word)]
    if not files and not stored:
        raise DocumentNotFound(f"no document and no file fits the pattern: {word}")
    return [*files, *stored]


def pick_places(documents: Sequence[AskedDocument], words: Sequence[str]) -> list[int]:
    """The places, from 0, of the documents that numbers, names and patterns mean, each once, in their order.

    Raises ``NotInConversation``, ``AmbiguousDocument``.
    """
    names = [document.name for document in documents]
    return list(dict.fromkeys(place for word in words for place in _pick(names, word)))


def _pick(names: Sequence[str], word: str) -> list[int]:
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(names):
        return [int(word) - 1]
    places = list(_matching(names, word))
    if not places:
        raise NotInConversation(f"the conversation has no such document{suggest(word, names)}: {word}")
    if len(places) > 1 and not _is_pattern(word):
        found = ", ".join(names[place] for place in places[:3])
        raise AmbiguousDocument(f"{len(places)} documents end in this name, {found}: {word}")
    return places


def _matching(names: Sequence[str], word: str) -> Iterator[int]:
    path = os.path.abspath(os.path.expanduser(word))
    for place, name in enumerate(names):
        if name in (word, path) or name.endswith(f"{os.sep}{word}") or (_is_pattern(word) and _fits(name, word)):
            yield place


def _is_pattern(word: str) -> bool:
    return any(mark in word for mark in "*?[")


def _fits(name: str, pattern: str) -> bool:
    """Whether a name, or an end of it, is what the pattern tells."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*{os.sep}{pattern}")
