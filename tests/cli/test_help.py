"""The help pages: groups, examples that work, nothing heavy imported."""

import shlex
from typing import Any

import pytest
import typer

from kvboost_cli.commands import GROUPS
from kvboost_cli.commands.examples import EXAMPLES
from kvboost_cli.commands.pages import Page
from kvboost_cli.main import PROGRAM, app


def leaves(command: Any, name: str = "") -> dict[str, Any]:
    """Every command that does something, by its full name."""
    if not hasattr(command, "commands"):
        return {name: command}
    found: dict[str, Any] = {}
    for sub, child in command.commands.items():
        found |= leaves(child, f"{name} {sub}".strip())
    return found


COMMANDS = leaves(typer.main.get_command(app))


def test_every_command_has_a_page_with_examples() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    assert [name for name, command in COMMANDS.items() if not isinstance(command, Page)] == []


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_one_that_the_command_line_takes(line: str) -> None:
    words = shlex.split(line, comments=True)
    args = words[words.index("kvboost") + 1 :]
    args = args[: args.index(">")] if ">" in args else args
    name = next(name for name in sorted(COMMANDS, key=len, reverse=True) if args[: len(name.split())] == name.split())
    COMMANDS[name].make_context(name, args[len(name.split()) :])


def page(*args: str) -> str:
    command, name = typer.main.get_command(app), PROGRAM
    context = command.context_class(command, info_name=name)
    for arg in args:
        command = command.commands[arg]
        context = command.context_class(command, info_name=arg, parent=context)
    return str(command.get_help(context))


def test_the_first_page_has_the_commands_in_groups() -> None:
    text = page()
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert "..." not in text.partition("Options:")[2], "no sentence is cut"


def test_many_options_are_grouped_and_few_are_not() -> None:
    ask = page("ask")
    titles = ("Documents:", "Store and model:", "Reuse and repair:", "Answer:", "Output:", "Options:", "Examples:")
    places = [ask.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    assert "Output:" not in page("stats")
    assert 'kvboost ask "Who is on call?"' in ask
