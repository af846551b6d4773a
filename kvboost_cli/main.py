"""The ``kvboost`` script: builds the typer app, runs a command, turns errors into a line and an exit code."""

import os
import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from . import commands, console, terminal, threads
from .commands import failures, pages

PROGRAM = "kvboost"
PAGE_COLUMNS = 80
"""A page of help is no wider."""

COMPLETE_VARIABLE = "_KVBOOST_COMPLETE"
"""Set by the completion scripts of typer, which have its name from the program's."""


class Program(pages.Section):
    """The page of ``kvboost`` itself."""

    panels = commands.GROUPS


# rich help would import rich for a plain page of text
app = typer.Typer(cls=Program, rich_markup_mode=None, pretty_exceptions_enable=False)
for _name in commands.MODULES:
    import_module(f"{commands.__name__}.{_name}").register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        console.write(f"kvboost {version('kvboost-cli')}\n")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Index documents into a persistent store of transformer KV cache, and ask about them fast."""


def run() -> NoReturn:
    """Run the command line in ``sys.argv`` and exit."""
    console.prepare_streams()
    threads.wait_briefly(os.environ)
    sys.exit(_run(sys.argv[1:] or ["--help"]))


def _run(args: list[str]) -> int:
    """The exit code of one command line. A reader that closed our pipe has what it wanted: no error."""
    try:
        code = _invoke(args)
    except BrokenPipeError:
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        code = failures.report(error, as_json="--json" in args)
    try:
        sys.stdout.flush()
    except OSError:
        console.silence(sys.stdout)  # what failed was told above, or the reader has gone
    return code


def _invoke(args: list[str]) -> int:
    command = typer.main.get_command(app)
    if COMPLETE_VARIABLE in os.environ:
        command.main(prog_name=PROGRAM)  # the shell asks: typer answers it, and exits
    columns = min(terminal.columns(sys.stdout), PAGE_COLUMNS) - 2
    try:
        with command.make_context(PROGRAM, args, terminal_width=columns) as context:
            command.invoke(context)
    except typer.Exit as finished:
        return finished.exit_code
    return 0
