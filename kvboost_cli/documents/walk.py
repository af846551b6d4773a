"""The walk of one folder tree: sorted, with an explicit stack, one open folder listing per level."""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .errors import InvalidPattern
from .files import translate_os_error
from .ignore import (
    DEFAULT_EXCLUDES,
    IgnoreLayer,
    folder_layers,
    is_ignored,
    is_repository,
    outer_layers,
    parse_rules,
    relative_to,
)
from .inspect_file import Found, inspect_file, skipped_for
from .sources import Skipped

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_Layers = tuple[IgnoreLayer, ...]


@dataclass(frozen=True)
class Selection:
    """The user's patterns, relative to whatever root they are applied to. A file has to match each of `specs`."""

    specs: "tuple[GitIgnoreSpec, ...]"
    excludes: tuple[str, ...]

    @classmethod
    def compile(cls, globs: Sequence[str], excludes: Sequence[str]) -> "Selection":
        """Compile both lists of gitignore patterns. Raises InvalidPattern."""
        for pattern in excludes:
            _spec((pattern,))
        return cls((_spec(globs),) if globs else (), tuple(excludes))

    def within(self, pattern: str) -> "Selection":
        """Narrow to what a shell pattern, relative to the root, expands to, folders with all they hold."""
        return replace(self, specs=(*self.specs, _spec(("/" + pattern,))))

    def keeps_file(self, root: str, path: str) -> bool:
        """Tell whether the globs let the file at `path`, below `root`, pass."""
        relative = relative_to(root, path)
        return all(spec.match_file(relative) for spec in self.specs)

    def excludes_file(self, root: str, path: str) -> bool:
        """Tell whether the excludes name the file at `path`, below `root`."""
        return is_ignored((self.exclude_layer(root),), path, False)

    def exclude_layer(self, root: str) -> IgnoreLayer:
        """Return the excludes as rules for the tree below `root`."""
        return IgnoreLayer(root, parse_rules(self.excludes))


def _spec(patterns: Sequence[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.base import GitIgnorePatternError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # re's remarks on brackets such as [[a]
            return GitIgnoreSpec.from_lines(patterns)
    except (GitIgnorePatternError, re.error) as error:
        raise InvalidPattern("not a gitignore pattern", " ".join(patterns)) from error


@dataclass
class _Level:
    """An open folder: its entries still to come and the rules from its ignore files, the strongest first."""

    entries: Iterator[os.DirEntry[str]]
    layers: _Layers


def walk_folder(root: str, selection: Selection) -> Iterator[Found]:
    """Yield the files below `root` (an absolute path to a folder) and what is told as skipped."""
    above = selection.exclude_layer(root)
    below = IgnoreLayer(root, parse_rules(DEFAULT_EXCLUDES))
    stack: list[_Level] = []
    yield from _start(root, stack)
    while stack:
        level = stack[-1]
        entry = next(level.entries, None)
        if entry is None:
            stack.pop()
            continue
        is_folder = _is_folder(entry)
        if entry.name.startswith(".") or is_ignored((above, *level.layers, below), entry.path, is_folder):
            continue
        if is_folder:
            yield from _enter(entry.path, stack, level.layers)
        elif selection.keeps_file(root, entry.path):
            yield from _look_at(entry, root)


def _start(root: str, stack: list[_Level]) -> Iterator[Found]:
    outer: _Layers = ()
    try:
        outer = outer_layers(root)
    except OSError as error:
        yield _failed(error, root)
    yield from _enter(root, stack, outer)


def _enter(folder: str, stack: list[_Level], outer: _Layers) -> Iterator[Found]:
    """Push a folder, or tell why it cannot be listed. A repository's rules end at its root."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        yield _failed(error, folder)
        return
    layers = () if is_repository(folder) else outer
    try:
        layers = folder_layers(folder) + layers
    except OSError as error:
        yield _failed(error, folder)
    stack.append(_Level(iter(entries), layers))


def _look_at(entry: os.DirEntry[str], root: str) -> Iterator[Found]:
    """Inspect an entry that is no folder. Links to folders are passed over: no loops, nothing twice."""
    if entry.is_symlink() and os.path.isdir(entry.path):
        return
    if entry.is_symlink() and not os.path.exists(entry.path):
        yield Found(Skipped(entry.path, "a broken link", False), None, False)
        return
    yield inspect_file(entry.path, root, explicit=False)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False  # the inspection of the file meets the same error and tells it


def _failed(error: OSError, folder: str) -> Found:
    name = folder if error.filename is None else str(error.filename)
    return Found(skipped_for(translate_os_error(error, name), explicit=True), None, False)
