"""Imports go one way. The table is the architecture; a new package needs a row."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# package: what it may import of ours, besides itself
ALLOWED = {
    "store": set[str](),
    "kvboost_cli.kv": set[str](),
    "kvboost_cli.documents": set[str](),
    "kvboost_cli.retrieval": set[str](),
    "kvboost_cli.bundle": {"store"},
    "kvboost_cli.model": {"kvboost_cli.kv"},
    "kvboost_cli.pipelines": {
        "kvboost_cli.bundle",
        "kvboost_cli.documents",
        "kvboost_cli.model",
        "kvboost_cli.retrieval",
        "kvboost_cli.kv",
        "store",
    },
    "kvboost_cli.bench": {"kvboost_cli.pipelines", "kvboost_cli.documents", "kvboost_cli.model", "store"},
    "kvboost_cli.setting_facts": set[str](),
    "kvboost_cli.settings": {"kvboost_cli.setting_facts"},
    "kvboost_cli.settings_view": {"kvboost_cli.setting_facts", "kvboost_cli.settings"},
    "kvboost_cli.progress": set[str](),
    "kvboost_cli.logfile": set[str](),
    "kvboost_cli.scheduling": set[str](),
    "kvboost_cli.terminal": set[str](),
    "kvboost_cli.sheet": set[str](),
    "kvboost_cli.console": {"kvboost_cli.progress", "kvboost_cli.sheet", "kvboost_cli.terminal"},
    "kvboost_cli.dashboard": {"kvboost_cli.pipelines", "store"},
    "kvboost_cli.commands": {
        "kvboost_cli.bench",
        "kvboost_cli.bundle",
        "kvboost_cli.pipelines",
        "kvboost_cli.documents",
        "kvboost_cli.model",
        "kvboost_cli.retrieval",
        "kvboost_cli.setting_facts",
        "kvboost_cli.settings",
        "kvboost_cli.settings_view",
        "kvboost_cli.console",
        "kvboost_cli.dashboard",
        "kvboost_cli.logfile",
        "kvboost_cli.progress",
        "kvboost_cli.scheduling",
        "kvboost_cli.sheet",
        "store",
    },
    "kvboost_cli.threads": set[str](),
    "kvboost_cli.main": {
        "kvboost_cli.commands",
        "kvboost_cli.console",
        "kvboost_cli.terminal",
        "kvboost_cli.threads",
    },
}

# library: the only place that may import it
OWNERS = {
    "transformers": "kvboost_cli/model/",
    "huggingface_hub": "kvboost_cli/model/",
    "rich": "kvboost_cli/console/",
    "typer": ("kvboost_cli/commands/", "kvboost_cli/main.py"),
    "pydantic": "kvboost_cli/settings.py",
    "matplotlib": (
        *(f"kvboost_cli/bench/{name}.py" for name in ("picture", "ttft_picture", "eviction_picture")),
        "kvboost_cli/dashboard/charts.py",
    ),
    "crontab": "kvboost_cli/scheduling/crontab_line.py",
    "prompt_toolkit": "kvboost_cli/commands/chat_input.py",
    "zstandard": "kvboost_cli/bundle/frames.py",
}

SOURCES = sorted(path for top in ("kvboost_cli", "store") for path in (ROOT / top).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, ast.stmt]]:
    """Absolute dotted names that a file imports, wherever in the file."""
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((f"{base}.{alias.name}", node) for alias in node.names)


def row(dotted: str) -> str | None:
    """The row of `ALLOWED` that a dotted name belongs to."""
    fits = [name for name in ALLOWED if dotted == name or dotted.startswith(f"{name}.")]
    return max(fits, key=len, default=None)


def row_of_file(path: Path) -> str | None:
    return row(".".join(path.relative_to(ROOT).with_suffix("").parts))


def test_the_table_knows_every_module() -> None:
    unknown = [path for path in SOURCES if row_of_file(path) is None]
    assert unknown == [ROOT / "kvboost_cli" / "__init__.py"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = row_of_file(path)
    ours = {row(name) for name, _ in imports(path)} - {None, own}
    assert ours <= ALLOWED.get(own or "", set())


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_is_imported_in_one_place(library: str) -> None:
    users = {
        str(path.relative_to(ROOT)) for path in SOURCES for name, _ in imports(path) if name.split(".")[0] == library
    }
    assert [user for user in sorted(users) if not user.startswith(OWNERS[library])] == []


def test_lmdb_is_imported_by_one_module_of_the_store() -> None:
    users = {path for path in SOURCES for name, _ in imports(path) if name.split(".")[0] == "lmdb"}
    assert len(users) == 1
    assert users.pop().is_relative_to(ROOT / "store")


def test_the_store_knows_nothing_of_tensors() -> None:
    names = {name.split(".")[0] for path in (ROOT / "store").rglob("*.py") for name, _ in imports(path)}
    assert names.isdisjoint({"torch", "numpy", "transformers"})


def test_commands_import_what_is_heavy_inside_their_functions() -> None:
    heavy = {"torch", "transformers", "kvboost_cli.bench", "kvboost_cli.pipelines", "kvboost_cli.model", "store"}
    for path in (ROOT / "kvboost_cli" / "commands").glob("*.py"):
        top_level = ast.parse(path.read_text(encoding="utf-8")).body
        at_import = {name for name, node in imports(path) if any(ast.dump(node) == ast.dump(s) for s in top_level)}
        assert not [name for name in at_import if name.split(".")[0] in heavy or row(name) in heavy], path


def test_the_wheel_lists_every_package() -> None:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in SOURCES}
    assert set(listed) == found
