"""gitignore rules, held against git itself."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvboost_cli.documents import SourceFile, discover

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = ("a", "b", "ab", "a.md", "b.txt", "keep.md")
FOLDERS = ("", "a/", "b/", "a/b/", "a/ab/", "a/b/a/")
FILES = tuple(f"{folder}{name}" for folder in FOLDERS for name in NAMES if f"{folder}{name}/" not in FOLDERS)

segments = st.sampled_from(["a", "b", "ab", "*", "**", "*.md", "a*", "?", "[ab]", "keep.md", "b.txt", "[!a]*", "\\a"])
patterns = st.builds(
    lambda negated, rooted, parts, folder: f"{negated}{rooted}{'/'.join(parts)}{folder}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(segments, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " ", "/ "]),
)
rules = st.lists(patterns | st.sampled_from(["", "# a", "[", "[z-a]", "!", "/", "\\!a", "b.txt  ", "a\\ "]), max_size=5)


def make_tree(root: Path) -> None:
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")


def found(root: Path, named: Path | None = None) -> set[str]:
    items = list(discover([named or root]))
    assert all(isinstance(item, SourceFile) for item in items)
    return {os.path.relpath(item.path, root) for item in items if isinstance(item, SourceFile)}


def untracked(root: Path, *under: str) -> set[str]:
    """What git would add."""
    command = ["git", "ls-files", "--others", "--exclude-standard", "-z", "--", *under]
    listing = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return {name for name in listing.split("\0") if name and not os.path.basename(name).startswith(".")}


@needs_git
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rules, rules, rules, rules)
def test_a_walk_finds_what_git_would_add(
    top: list[str], nested: list[str], deep: list[str], private: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        make_tree(root)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        (root / ".gitignore").write_text("\n".join(top))
        (root / "a" / ".gitignore").write_text("\n".join(nested))
        (root / "a" / "b" / ".gitignore").write_text("\n".join(deep))
        (root / ".git" / "info" / "exclude").write_text("\n".join(private))
        assert found(root) == untracked(root)


def repository(root: Path) -> Path:
    (root / ".git" / "info").mkdir(parents=True)
    make_tree(root)
    return root


def test_rules_above_the_named_folder_hold_up_to_the_repository_root(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("keep.md\n")
    root = repository(tmp_path / "repository")
    (root / ".gitignore").write_text("/a/b/a.md\n*.txt\n")
    assert found(root, root / "a" / "b") == {"a/b/b", "a/b/ab", "a/b/keep.md"} | {
        f"a/b/a/{name}" for name in NAMES if name != "b.txt"
    }


def test_a_named_folder_is_walked_although_its_repository_ignores_it(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / ".gitignore").write_text("a/\n")
    assert found(root, root / "b") == {f"b/{name}" for name in NAMES}
    assert found(root, root / "a" / "ab") == {f"a/ab/{name}" for name in NAMES}


def test_a_repository_inside_a_tree_has_only_its_own_rules(tmp_path: Path) -> None:
    root = repository(tmp_path / "outer")
    inner = repository(root / "inner")
    (root / ".gitignore").write_text("*.md\n")
    (inner / ".gitignore").write_text("*.txt\n")
    assert found(root, inner) == {f"inner/{name}" for name in FILES if not name.endswith(".txt")}
    assert found(inner) == {name for name in FILES if not name.endswith(".txt")}
    assert not [name for name in found(root) if name.startswith("inner/") and name.endswith(".txt")]
    assert "inner/keep.md" in found(root)


def test_rules_hold_without_a_repository(tmp_path: Path) -> None:
    make_tree(tmp_path)
    (tmp_path / ".gitignore").write_text("\ufeff*\n!*/\n!*.md\n")
    assert found(tmp_path) == {name for name in FILES if name.endswith(".md")}


def test_generated_folders_are_passed_over_unless_taken_back_in(tmp_path: Path) -> None:
    for name in ("node_modules/x.js", "lib/__pycache__/y.txt", "z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    assert found(tmp_path) == {"z.txt"}
    (tmp_path / ".gitignore").write_text("!node_modules/\n")
    assert found(tmp_path) == {"z.txt", "node_modules/x.js"}
