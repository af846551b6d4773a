"""What ``kvboost index`` is asked to do, from its arguments."""

import sys
from typing import TYPE_CHECKING

import typer

from . import options

if TYPE_CHECKING:
    from ..pipelines.indexing import IndexRequest
    from ..pipelines.shards import Shard

STDIN = "-"


def make_request(
    paths: list[str],
    globs: list[str],
    excludes: list[str],
    files_from: str | None,
    shard: str | None,
    *,
    prune: bool,
    force: bool,
    dry_run: bool,
) -> "IndexRequest":
    """The request; what is named and not there is told before a store is made. Reads standard input if it is named."""
    from ..documents import discover, document_from_bytes
    from ..pipelines.indexing import IndexRequest

    _require_sources(paths, files_from)
    text = document_from_bytes("stdin", options.read_stdin()) if STDIN in paths else None
    listed = [] if files_from is None else _read_list(files_from)
    named = [path for path in paths if path != STDIN]
    if not prune:
        discover(named, globs=globs, excludes=excludes)
    return IndexRequest(
        named, listed, globs, excludes, text, prune=prune, force=force, dry_run=dry_run,
        shard=_parse_shard(shard),
    )  # fmt: skip


def _require_sources(paths: list[str], files_from: str | None) -> None:
    if not paths and files_from is None:
        raise typer.BadParameter("name at least one file or folder, or use --files-from")
    if STDIN in paths and files_from == STDIN:
        raise typer.BadParameter("standard input can be a document or a list of files, not both")


def _parse_shard(text: str | None) -> "Shard | None":
    from ..pipelines.shards import Shard

    try:
        return None if text is None else Shard.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--shard'") from None


def _read_list(path: str) -> list[str]:
    from ..documents import read_file_list

    is_stdin = path == STDIN
    source = sys.stdin.fileno() if is_stdin else path
    try:
        with open(source, encoding="utf-8", errors="surrogateescape", closefd=not is_stdin) as lines:
            return read_file_list(lines)
    except OSError as error:
        raise typer.BadParameter(f"{error.strerror}: {path}", param_hint="'--files-from'") from error
