"""gitignore rules as git applies them: entry by entry on the way down, the deepest file first, last match wins.

The patterns' translation is pathspec's. Its own matchers judge a whole path at once, which lets a file back in
although its folder is excluded; a walk that prunes needs each entry judged by itself.
"""

import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DEFAULT_EXCLUDES = ("node_modules/", "__pycache__/")
_EVERYTHING = re.compile(r"\*|/?\*\*|/?(?:\*\*/)+\*\*?")
_TRAILING_SPACES = re.compile(r"(?<!\\) +$")


@dataclass(frozen=True)
class IgnoreRule:
    """One pattern line: `ignored` is False for a negated one, `regex` None for one that matches everything."""

    ignored: bool
    folders_only: bool
    regex: re.Pattern[str] | None

    def matches(self, path: str, is_folder: bool) -> bool:
        """Tell whether the entry at `path` (relative, with slashes) is meant by this pattern."""
        if self.folders_only and not is_folder:
            return False
        return self.regex is None or self.regex.fullmatch(path) is not None


@dataclass(frozen=True)
class IgnoreLayer:
    """The rules of one ignore file, applied below `base` (an absolute path)."""

    base: str
    rules: tuple[IgnoreRule, ...]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return True for ignored, False for taken back in, None where no rule speaks."""
        relative = relative_to(self.base, path)
        for rule in reversed(self.rules):
            if rule.matches(relative, is_folder):
                return rule.ignored
        return None


def is_ignored(layers: Iterable[IgnoreLayer], path: str, is_folder: bool) -> bool:
    """Judge one entry whose parents are not ignored. `layers` come from the strongest to the weakest."""
    for layer in layers:
        verdict = layer.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def parse_rules(lines: Iterable[str]) -> tuple[IgnoreRule, ...]:
    """Compile the lines of an ignore file; what git takes for no pattern is left out.

    >>> [rule.matches("a/build", True) for rule in parse_rules(["# notes", "build/"])]
    [True]
    """
    return tuple(rule for line in lines if (rule := _parse_rule(line)) is not None)


def _parse_rule(line: str) -> IgnoreRule | None:
    pattern = _TRAILING_SPACES.sub("", line.rstrip("\r\n"))
    if pattern.startswith("#"):
        return None
    ignored = not pattern.startswith("!")
    pattern = pattern if ignored else pattern[1:]
    folders_only = pattern.endswith("/")
    pattern = pattern[:-1] if folders_only else pattern
    if not pattern.strip("/"):
        return None
    if _EVERYTHING.fullmatch(pattern):
        return IgnoreRule(ignored, folders_only, None)
    regex = _compile(pattern)
    return None if regex is None else IgnoreRule(ignored, folders_only, regex)


def _compile(pattern: str) -> re.Pattern[str] | None:
    """Translate one pattern without its `!` and its last slash; None where git would match nothing."""
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if pattern.endswith("/**"):
        pattern += "/*"  # all that is inside, but not the folder itself
    if pattern[0] in "#!":
        pattern = "\\" + pattern
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # re's remarks on brackets such as [[a]
            return GitIgnoreSpecPattern(pattern).regex
    except (GitIgnorePatternError, re.error):
        return None  # git passes over such a line too


def folder_layers(folder: str) -> tuple[IgnoreLayer, ...]:
    """Read the ignore files that start to apply in `folder`, the strongest first. Raises OSError."""
    files = (os.path.join(folder, ".gitignore"), os.path.join(folder, ".git", "info", "exclude"))
    layers = (IgnoreLayer(folder, _read_rules(file)) for file in files)
    return tuple(layer for layer in layers if layer.rules)


def is_repository(folder: str) -> bool:
    """Tell whether `folder` is the root of a git repository: outer rules end there."""
    return os.path.lexists(os.path.join(folder, ".git"))


def outer_layers(folder: str) -> tuple[IgnoreLayer, ...]:
    """Collect the rules above `folder` up to its repository's root, the strongest first. Raises OSError.

    Outside a repository, and for a folder that these rules ignore (it was asked for by name), there are none.
    """
    above = _ancestors_to_repository(folder)
    layers = tuple(layer for parent in above for layer in folder_layers(parent))
    for entry in (folder, *above[:-1]):
        deeper_first = [layer for layer in layers if entry.startswith(_prefix(layer.base)) and entry != layer.base]
        if is_ignored(deeper_first, entry, True):
            return ()
    return layers


def _ancestors_to_repository(folder: str) -> list[str]:
    """Return the folders above `folder`, nearest first, the last being the repository's root; or none."""
    if is_repository(folder):
        return []
    above: list[str] = []
    for parent in map(str, Path(folder).parents):
        above.append(parent)
        if is_repository(parent):
            return above
    return []


def relative_to(base: str, path: str) -> str:
    """Return `path`, which lies below `base`, from there on and with slashes.

    >>> relative_to("/srv", "/srv/docs/a.md"), relative_to("/", "/srv")
    ('docs/a.md', 'srv')
    """
    return path[len(_prefix(base)) :].replace(os.sep, "/")


def _prefix(folder: str) -> str:
    return folder.rstrip(os.sep) + os.sep


def _read_rules(path: str) -> tuple[IgnoreRule, ...]:
    try:
        text = Path(path).read_text("utf-8-sig", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ()
    return parse_rules(text.split("\n"))
