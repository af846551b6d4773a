"""The documentation is checked against the product: commands, options, JSON keys, links, and blocks that are run."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from kvboost_cli.main import app

ROOT = Path(__file__).parents[1]
SCRIPT = Path(sys.executable).with_name("kvboost")
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
MARKER = re.compile(r"@@[A-Z]+[^@]*@@")
RUN = "sh run"
BENCH = ("bench", "bench ttft", "bench kv-cache", "bench index", "bench eviction")


@dataclass(frozen=True)
class Command:
    """One command of the command line, such as `models pull`, and the options that it takes."""

    name: str
    options: tuple[str, ...]

    @property
    def page(self) -> Path:
        return DOCS / "commands" / f"{self.name.split()[0]}.md"


def walk(command: Any, name: str = "") -> Iterator[Command]:
    subcommands = getattr(command, "commands", None)
    if subcommands is not None:
        for sub, child in subcommands.items():
            yield from walk(child, f"{name} {sub}".strip())
    if subcommands is None or (name and command.invoke_without_command):
        options = [opt for param in command.params for opt in (*param.opts, *param.secondary_opts)]
        yield Command(name, tuple(opt for opt in options if opt.startswith("-")))


SECTIONS = [
    "index", "ask", "chat", "prewarm", "cron status", "history", "history clear", "stats", "budget", "pin", "doctor",
    "doctor --check", "export", "import", "prune", "compact", "forget", *BENCH, "plan", "config show", "config path",
    "models", "path",
]  # fmt: skip
COMMANDS = list(walk(typer.main.get_command(app)))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, info: str) -> list[str]:
    """The bodies of the page's fenced blocks that are opened with this info string."""
    return [body for opened, body in FENCE.findall(page.read_text(encoding="utf-8")) if opened.strip() == info]


def anchors(page: Path) -> set[str]:
    """What the page's headings are linked by, as on GitHub."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def key_paths(value: object, prefix: str = "") -> Iterator[str]:
    """Dotted paths of all keys; a list's items are `[]`, so `documents[].path`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            yield path
            yield from key_paths(inner, path)
    elif isinstance(value, list):
        for item in value:
            yield from key_paths(item, f"{prefix}[]")


def empty_lists(value: object, prefix: str = "") -> Iterator[str]:
    """Dotted paths of lists without items: what their items have is explained, and not shown."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from empty_lists(inner, f"{prefix}.{key}" if prefix else str(key))
    elif value == []:
        yield prefix


def json_section(title: str) -> str:
    """The part of docs/json.md under one heading."""
    text = (DOCS / "json.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/json.md has no section {title}"
    return found[1]


def make_home(home: Path, model_dir: Path, cache: Path) -> dict[str, str]:
    """An environment with a home of its own in which the default model is pulled."""
    models = home / "data" / "kvboost" / "models"
    models.mkdir(parents=True)
    (models / model_dir.name).symlink_to(model_dir)
    dirs = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG")}
    dirs |= {"XDG_CACHE_HOME": str(cache)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVBOOST_")}
    return kept | dirs | {"NO_COLOR": "1", "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, default_model_dir: Path, shared_cache: Path) -> dict[str, object]:
    """What each command prints with --json, by its section in docs/json.md: one real run each."""
    folder = tmp_path_factory.mktemp("json")
    env = make_home(folder / "home", default_model_dir, shared_cache)
    (folder / "notes").mkdir()
    (folder / "notes" / "tea.md").write_text("Green tea takes two minutes at 80 degrees.\n")
    (folder / "notes" / "empty.md").touch()
    lines = {
        "index": ["index", "notes"],
        "ask": ["ask", "How hot?", "-d", "tea.md", "--max-tokens", "4", "--verify"],
        "chat": ["chat", "-d", "tea.md", "--max-tokens", "4"],
        "prewarm": ["prewarm", "--page-cache"],
        "cron status": ["cron", "status"],
        "history": ["history"],
        "history clear": ["history", "clear"],
        "stats": ["stats", "--documents"],
        "pin": ["pin", "tea.md"],
        "budget": ["budget", "1GB"],
        "doctor": ["doctor"],
        "doctor --check": ["doctor", "--check"],
        "export": ["export", "notes.kvb"],
        "import": ["import", "notes.kvb"],
        "prune": ["prune", "--dry-run"],
        "compact": ["compact"],
        "forget": ["forget", "notes/tea.md", "--compact"],
        "bench": [
            "bench",
            "quality",
            "--docs",
            str(ROOT / "examples" / "handbook"),
            "--tasks",
            "fact",
            "--n",
            "1",
            "--documents",
            "2",
            "--passage-tokens",
            "60",
            "--variant",
            "auto",
            "--variant",
            "alone/cacheblend:0.15",
        ],
        "bench ttft": ["bench", "ttft", "--sizes", "300", "--strategies", "none", "--repeats", "1", "--memory"],
        "bench kv-cache": ["bench", "kv-cache", "--sizes", "50", "--tokens", "3", "--repeats", "1"],
        "bench index": ["bench", "index", "--repeats", "1"],
        "plan": ["plan", "notes", "--budget", "1GB"],
        "config show": ["config", "show"],
        "config path": ["config", "path"],
        "bench eviction": ["bench", "eviction", "--documents", "60", "--questions", "10", "--repeats", "1"],
        "models": ["models", "list"],
        "path": ["path"],
    }
    told = {}
    for section, args in lines.items():
        done = subprocess.run(
            [SCRIPT, *args, "--json"],
            cwd=folder,
            env=env,
            input="How hot?",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told[section] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_has_a_page_that_names_every_option(command: Command) -> None:
    text = command.page.read_text(encoding="utf-8")
    assert f"kvboost {command.name}" in text
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))
    assert set(command.options) - named == set()


def test_a_page_belongs_to_a_command() -> None:
    assert set((DOCS / "commands").iterdir()) == {command.page for command in COMMANDS}


@pytest.mark.parametrize("page", sorted({command.page for command in COMMANDS}), ids=name_of)
def test_an_option_in_a_table_exists(page: Path) -> None:
    rows = re.findall(r"^\| (`-[^|\\]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    told = {option for row in rows for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row)}
    known = {option for command in COMMANDS if command.page == page for option in command.options}
    assert told - known - {"--help"} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_resolve(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_entry_page_lists_every_other_page() -> None:
    entry = DOCS / "index.md"
    listed = {(entry.parent / link).resolve() for link in LINK.findall(entry.read_text(encoding="utf-8"))}
    assert set(PAGES) - {entry} - listed == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_json_examples_parse(page: Path) -> None:
    for body in blocks(page, "json"):
        json.loads(body)


@pytest.mark.model
@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_json_is_explained_and_shown(section: str, printed: dict[str, object]) -> None:
    text = json_section(section)
    explained = set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))
    paths = set(key_paths(printed[section]))
    assert paths - explained == set()
    if section != "models":  # its section explains `pull`, too
        unseen = tuple(f"{path}[]" for path in empty_lists(printed[section]))
        assert {path for path in explained - paths if not path.startswith(unseen)} == set()


@pytest.mark.model
def test_the_counts_of_ask_sum_to_the_prompt(printed: dict[str, object]) -> None:
    told = printed["ask"]
    assert isinstance(told, dict)
    tokens, ttft = told["tokens"], told["ttft"]
    assert tokens["exact"] + tokens["reused"] + tokens["repaired"] + tokens["prefilled"] == tokens["prompt"]
    assert sum(value for name, value in ttft.items() if name != "total_s") == pytest.approx(ttft["total_s"])


@pytest.mark.model
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, RUN)], ids=name_of)
def test_blocks_marked_as_run_do_run(page: Path, tmp_path: Path, default_model_dir: Path, shared_cache: Path) -> None:
    env = make_home(tmp_path / "home", default_model_dir, shared_cache)
    work = tmp_path / "work"
    work.mkdir()
    shutil.copytree(ROOT / "examples", work / "examples")
    for body in blocks(page, RUN):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", body], cwd=work, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_figure_is_left_to_be_filled_in(page: Path) -> None:
    assert MARKER.findall(page.read_text(encoding="utf-8")) == []
