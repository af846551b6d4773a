"""From the paths a user names to files, streaming: no more than one folder's names per level are held.

Passed over in silence: hidden entries, what gitignore rules or `excludes` name, what `globs` do not, links to folders,
and DEFAULT_EXCLUDES (node_modules and __pycache__ folders; a `!` rule in a .gitignore takes them back in).
A path that is named itself overrides all of these but `globs` and `excludes`.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .errors import PathNotFound
from .inspect_file import Found, inspect_file
from .sources import Skipped, SourceFile
from .walk import Selection, walk_folder

_MAGIC = frozenset("*?[")


def discover(
    paths: Sequence[str | Path],
    *,
    globs: Sequence[str] = (),
    excludes: Sequence[str] = (),
    missing_ok: bool = False,
) -> Iterator[SourceFile | Skipped]:
    """Find the files that `paths` (files, folders, glob patterns) mean: each file once, in a stable order.

    `globs` and `excludes` are gitignore patterns relative to each root. The paths are checked before this returns;
    a missing one, or a pattern that matches nothing, raises PathNotFound, or with `missing_ok` is yielded
    as a failed Skipped. Raises InvalidPattern.
    """
    selection = Selection.compile(globs, excludes)
    openings = [_open_path(os.fspath(path), selection, missing_ok) for path in paths]
    return _once(found for opening in openings for found in opening)


def read_file_list(lines: Iterable[str]) -> list[str]:
    """Return the paths in a list of lines, or of NUL-terminated names if there is a NUL; blank ones are dropped.

    >>> read_file_list(["a.md\\n", "\\n", "b c.md\\n"])
    ['a.md', 'b c.md']
    """
    given = list(lines)
    if any("\0" in line for line in given):
        names = "".join(given).split("\0")
    else:
        names = [line.rstrip("\r\n") for line in given]
    return [name for name in names if name.strip()]


def _open_path(named: str, selection: Selection, missing_ok: bool) -> Iterator[Found]:
    path = os.path.abspath(named)
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the path
        return _open_pattern(named, selection, missing_ok)
    except OSError:
        is_folder = False  # the inspection below meets the same error and says so
    if is_folder:
        return walk_folder(path, selection)
    return _named_file(path, selection)


def _named_file(path: str, selection: Selection) -> Iterator[Found]:
    root = os.path.dirname(path)
    if selection.keeps_file(root, path) and not selection.excludes_file(root, path):
        yield inspect_file(path, root, explicit=True)


def _open_pattern(named: str, selection: Selection, missing_ok: bool) -> Iterator[Found]:
    """Walk the fixed part of a pattern, keeping what matches; one match is looked for at once."""
    if _MAGIC.intersection(named):
        root, pattern = _split_pattern(named)
        matches = walk_folder(root, selection.within(pattern)) if os.path.isdir(root) else iter(())
        first = next(matches, None)
        if first is not None:
            return _chain(first, matches)
    if not missing_ok:
        raise PathNotFound("no such file or folder", named)
    return iter((Found(Skipped(named, "no such file or folder", True), None, True),))


def fixed_part(named: str) -> str:
    """The absolute path of a named file or folder, or of the folder that a glob pattern starts from.

    >>> fixed_part("/srv/docs/**/*.md")
    '/srv/docs'
    """
    is_pattern = _MAGIC.intersection(named) and not os.path.lexists(named)
    return _split_pattern(named)[0] if is_pattern else os.path.abspath(named)


def _split_pattern(named: str) -> tuple[str, str]:
    """Split a glob pattern into an absolute folder without magic and the rest.

    >>> _split_pattern("/srv/docs/**/*.md")
    ('/srv/docs', '**/*.md')
    """
    parts = named.replace(os.sep, "/").split("/")
    first = next(index for index, part in enumerate(parts) if _MAGIC.intersection(part))
    fixed = "/".join(parts[:first])
    return os.path.abspath(fixed or ("/" if first else ".")), "/".join(parts[first:])


def _chain(first: Found, rest: Iterator[Found]) -> Iterator[Found]:
    yield first
    yield from rest


def _once(found: Iterable[Found]) -> Iterator[SourceFile | Skipped]:
    """Drop what was told before: a file by identity; a skipped one too, unless it is now named itself."""
    files: set[tuple[int, int]] = set()
    skips: set[tuple[int, int]] = set()
    for item, identity, explicit in found:
        if identity is not None:
            if identity in files or (identity in skips and not explicit):
                continue
            (files if isinstance(item, SourceFile) else skips).add(identity)
        yield item
