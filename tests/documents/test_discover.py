import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvboost_cli.documents import (
    MAX_DOCUMENT_BYTES,
    InvalidPattern,
    PathNotFound,
    Skipped,
    SourceFile,
    discover,
    read_file_list,
)

not_as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")


def write(root: Path, *names: str, content: bytes = b"text\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def split(
    *paths: str | Path, globs: tuple[str, ...] = (), excludes: tuple[str, ...] = (), missing_ok: bool = False
) -> tuple[list[str], list[Skipped]]:
    items = list(discover(paths, globs=globs, excludes=excludes, missing_ok=missing_ok))
    files = [str(item.path) for item in items if isinstance(item, SourceFile)]
    return files, [item for item in items if isinstance(item, Skipped)]


def names(root: Path, *paths: str | Path, globs: tuple[str, ...] = (), excludes: tuple[str, ...] = ()) -> list[str]:
    files, skipped = split(*(paths or (root,)), globs=globs, excludes=excludes)
    assert skipped == []
    return [os.path.relpath(file, root) for file in files]


def test_a_folder_is_walked_in_order_without_what_is_hidden(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a/z.md", "a/y/x.md", ".hidden.md", ".git-like/c.md", "c")
    assert names(tmp_path) == ["a/y/x.md", "a/z.md", "b.md", "c"]


def test_a_source_file_says_what_the_file_system_says(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", content=b"12345")
    (found,) = discover([tmp_path / "docs" / ".." / "docs"])
    info = os.stat(tmp_path / "docs" / "a.md")
    root = tmp_path / "docs"
    assert found == SourceFile(root / "a.md", root, 5, info.st_mtime_ns, explicit=False)


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "docs/a.md")
    monkeypatch.chdir(tmp_path)
    for path in (".", "docs", "docs/a.md", "docs/*.md", "*/a.md", "**/a.md"):
        assert split(path) == ([str(tmp_path / "docs" / "a.md")], [])


def test_a_named_file_overrides_hidden_and_ignored(tmp_path: Path) -> None:
    write(tmp_path, ".notes/.draft.md", "out.log", ".git/HEAD")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert names(tmp_path) == []
    named = [tmp_path / ".notes" / ".draft.md", tmp_path / "out.log"]
    assert [(item.path, item.explicit) for item in discover(named) if isinstance(item, SourceFile)] == [
        (path, True) for path in named
    ]


def test_globs_and_excludes_are_relative_to_the_root(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "api/c.md", "api/v1/d.md", "old/e.md")
    assert names(tmp_path, globs=("*.md",)) == ["a.md", "api/c.md", "api/v1/d.md", "old/e.md"]
    assert names(tmp_path, globs=("/*.md", "v1/")) == ["a.md", "api/v1/d.md"]
    assert names(tmp_path, globs=("*.md", "!d.md"), excludes=("old/",)) == ["a.md", "api/c.md"]
    assert names(tmp_path, excludes=("*", "!b.txt")) == ["b.txt"]
    assert names(tmp_path, tmp_path / "a.md", tmp_path / "b.txt", excludes=("*.txt",)) == ["a.md"]
    assert names(tmp_path, tmp_path / "a.md", tmp_path / "b.txt", globs=("*.txt",)) == ["b.txt"]


def test_a_pattern_means_what_a_shell_would_expand_it_to(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "docs/b.md", "docs/api/c.md", "docs/api/d.txt", "docs/.x/e.md")
    assert names(tmp_path, f"{tmp_path}/**/*.md") == ["a.md", "docs/api/c.md", "docs/b.md"]
    assert names(tmp_path, f"{tmp_path}/*.md") == ["a.md"]
    assert names(tmp_path, f"{tmp_path}/docs/*") == ["docs/api/c.md", "docs/api/d.txt", "docs/b.md"]
    assert names(tmp_path, f"{tmp_path}/d[a-o]cs/*/?.txt") == ["docs/api/d.txt"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    write(tmp_path, "a[1].md", "a1.md")
    assert names(tmp_path, tmp_path / "a[1].md") == ["a[1].md"]


@pytest.mark.parametrize("missing", ["nothing.md", "*.nothing", "nowhere/*.md", "here.md/below.md", "nul\0.md"])
def test_a_missing_path_is_refused_before_anything_is_yielded(tmp_path: Path, missing: str) -> None:
    write(tmp_path, "here.md")
    with pytest.raises(PathNotFound) as caught:
        discover([tmp_path / "here.md", f"{tmp_path}/{missing}"])
    assert str(caught.value) == f"no such file or folder: {tmp_path}/{missing}"


def test_a_missing_entry_of_a_list_is_a_failure_among_others(tmp_path: Path) -> None:
    write(tmp_path, "here.md")
    files, skipped = split("gone.md", tmp_path / "here.md", missing_ok=True)
    assert files == [str(tmp_path / "here.md")]
    assert skipped == [Skipped("gone.md", "no such file or folder", True)]


def test_a_bad_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPattern, match=r"not a gitignore pattern: \[z-a\]"):
        discover([tmp_path], globs=["[z-a]"])
    with pytest.raises(InvalidPattern):
        discover([tmp_path], excludes=["ok", "!"])


def test_each_file_comes_once(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "docs/b.md", "docs/empty.md", content=b"x")
    (tmp_path / "docs" / "empty.md").write_bytes(b"")
    (tmp_path / "docs" / "c.md").symlink_to("a.md")
    docs = tmp_path / "docs"
    files, skipped = split(docs / "b.md", docs, docs, f"{docs}/*.md", docs / "a.md")
    assert files == [str(docs / "b.md"), str(docs / "a.md")]
    assert skipped == [Skipped(str(docs / "empty.md"), "an empty document", False)]


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path) -> None:
    write(tmp_path, "outside/real.md", "outside/other.md", "tree/a.md")
    (tmp_path / "tree" / "link.md").symlink_to("../outside/real.md")
    (tmp_path / "tree" / "loop").symlink_to(".")
    (tmp_path / "tree" / "folder").symlink_to("../outside")
    (tmp_path / "tree" / "dangling.md").symlink_to("nowhere.md")
    (tmp_path / "tree" / "self.md").symlink_to("self.md")
    tree = tmp_path / "tree"
    files, skipped = split(tree)
    assert files == [str(tree / "a.md"), str(tree / "link.md")]
    assert skipped == [Skipped(str(tree / name), "a broken link", False) for name in ("dangling.md", "self.md")]
    assert names(tree, tree / "folder") == ["folder/other.md", "folder/real.md"]


def test_what_is_no_file_is_told_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        files, skipped = split(tmp_path)
    assert files == []
    assert skipped == [
        Skipped(str(tmp_path / "fifo"), "a fifo, not a file", False),
        Skipped(str(tmp_path / "socket"), "a socket, not a file", False),
    ]
    assert split(tmp_path / "fifo") == ([], [Skipped(str(tmp_path / "fifo"), "a fifo, not a file", True)])
    assert split("/dev/null") == ([], [Skipped("/dev/null", "a device, not a file", True)])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("data", b"abc\0def", "a binary file"),
        ("controls", b"\x01\x02\x03abc", "a binary file"),
        ("photo.PNG", b"not looked at", "a binary file"),
        ("none.md", b"", "an empty document"),
        ("white.md", b" \n\t\n", "an empty document"),
    ],
)
def test_what_holds_no_text_fails_only_if_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    write(tmp_path, name, content=content)
    assert split(tmp_path) == ([], [Skipped(str(tmp_path / name), reason, False)])
    assert split(tmp_path / name) == ([], [Skipped(str(tmp_path / name), reason, True)])
    assert split(tmp_path, tmp_path / name)[1][-1].failed


def test_a_file_that_is_too_large_is_told(tmp_path: Path) -> None:
    with open(tmp_path / "big.txt", "wb") as file:
        file.truncate(MAX_DOCUMENT_BYTES + 1)
    assert split(tmp_path) == ([], [Skipped(str(tmp_path / "big.txt"), "larger than 64 MiB", False)])


@not_as_root
def test_what_may_not_be_read_has_failed(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "closed/b.md", "c.md")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "c.md").chmod(0)
    files, skipped = split(tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert files == [str(tmp_path / "a.md")]
    assert skipped == [
        Skipped(str(tmp_path / name), "cannot be read, permission denied", True) for name in ("c.md", "closed")
    ]


@pytest.mark.skipif(sys.platform == "darwin", reason="names are always text there")
def test_names_that_are_no_text_survive(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.md")
    with open(path, "wb") as file:
        file.write(b"text")
    (found,) = discover([tmp_path], globs=["*.md"])
    assert isinstance(found, SourceFile)
    assert os.fsencode(found.path) == path


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[Path]:
    """A chain of 1,100 folders, beyond Python's recursion limit; pytest's own clean-up could not remove it."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("a.md", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_a_very_deep_tree_is_walked(deep_tree: Path) -> None:
    files, skipped = split(deep_tree)
    assert files == []
    assert [(item.reason, item.path.count("/d")) for item in skipped] == [("an empty document", 1100)]


def test_a_tree_is_streamed(tmp_path: Path) -> None:
    write(tmp_path, "a/1.md", "b/2.md")
    found = discover([tmp_path])
    assert isinstance(next(found), SourceFile)
    (tmp_path / "b" / "2.md").rename(tmp_path / "b" / "3.md")
    rest = list(found)
    assert [item.path.name for item in rest if isinstance(item, SourceFile)] == ["3.md"]


def test_a_file_list_has_lines_or_nuls() -> None:
    assert read_file_list(["a.md\n", "\n", " b.md \r\n", "c.md"]) == ["a.md", " b.md ", "c.md"]
    assert read_file_list(["a\nb.md\0c", ".md\0"]) == ["a\nb.md", "c.md"]
    assert read_file_list([]) == []
