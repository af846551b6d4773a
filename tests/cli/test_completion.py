"""Completion as a real bash asks for it, and what is offered."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from desks import SCRIPT, Desk, prose

PRESS_TAB = """
eval "$(kvboost --show-completion)"
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_kvboost_completion kvboost
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def offered(desk: Desk, *words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    line = PRESS_TAB.format(words=" ".join(f"'{word}'" for word in ("kvboost", *words)))
    env = desk.env | {"PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", line], cwd=desk.root, env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_options_and_values_are_completed(desk: Desk) -> None:
    assert offered(desk, "pru") == ["prune"]
    assert offered(desk, "config", "") == ["show", "path", "init"]
    assert offered(desk, "ask", "--rep") == ["--repair", "--report"]
    assert offered(desk, "ask", "--report", "l") == ["line"]
    assert offered(desk, "index", "--device", "c") == ["cuda", "cpu"]


def test_names_of_stored_documents_are_completed(desk: Desk) -> None:
    names = sorted(path.name for path in desk.docs.iterdir())
    assert offered(desk, "ask", "question", "-d", "") == names
    assert offered(desk, "ask", "question", "-d", "on-") == ["on-call.md"]
    assert offered(desk, "forget", "acc") == ["access.md"]
    assert offered(desk, "export", "all.kvb", "-d", "ser") == ["services.md"]


def test_a_name_that_two_documents_share_is_completed_as_far_as_it_takes(desk: Desk) -> None:
    for folder in ("north", "south"):
        desk.write(f"more/{folder}/log.md", prose(len(folder) + ord(folder[0]), 1))
    desk.facts("index", "more")
    assert offered(desk, "ask", "question", "-d", "l") == []
    assert offered(desk, "ask", "question", "-d", "no") == ["north/log.md"]
    told = desk.run("forget", "north/log.md", "--json")
    assert told.returncode == 0, "what is offered is understood"


@pytest.mark.parametrize("store", ["missing", "docs"])
def test_without_a_store_nothing_is_offered_and_nothing_is_said(desk: Desk, store: str) -> None:
    assert offered(desk, "ask", "question", "--store", str(desk.root / store), "-d", "") == []


def test_completion_imports_no_torch(desk: Desk) -> None:
    env = desk.env | {"_KVBOOST_COMPLETE": "complete_bash", "COMP_WORDS": "kvboost ask q -d ", "COMP_CWORD": "4"}
    command = [sys.executable, "-X", "importtime", SCRIPT]
    done = subprocess.run(command, cwd=desk.root, env=env, capture_output=True, text=True, check=True)
    assert "on-call.md" in done.stdout
    imported = set(re.findall(r"^import time:.*\| +([A-Za-z_0-9]+)", done.stderr, re.MULTILINE))
    assert imported & {"torch", "transformers", "numpy", "rich", "tokenizers"} == set()


def test_completion_is_installed_where_bash_reads_it(desk: Desk, tmp_path: Path) -> None:
    env = desk.env | {"HOME": str(tmp_path)}
    command = ["bash", "--norc", "-c", f"'{SCRIPT}' --install-completion; exit $?"]  # a shell, to be recognized
    done = subprocess.run(command, cwd=desk.root, env=env, capture_output=True, text=True, check=True)
    script = next(tmp_path.rglob("kvboost.sh"))
    assert str(script) in done.stdout
    assert str(script) in (tmp_path / ".bashrc").read_text()
    assert "_KVBOOST_COMPLETE=complete_bash" in script.read_text()
