"""How ``--help`` looks: options and commands in groups, and examples below. Plain text, so that nothing is imported."""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

from .examples import EXAMPLES

OTHERS = "Options"
MANY = 9
"""Options from which on they are grouped."""

WIDEST_NAMES = 30
"""Columns that options' names take at most, and a third of a narrow terminal; what is told of them stands behind."""

WHOLE = 500
"""Characters of a command's first sentence that are shown: all. It is broken into lines, not cut."""


class Page(TyperCommand):
    """A command's page: options by their ``rich_help_panel``, then the examples of ``examples.EXAMPLES``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then one section for each group of options."""
        params = self.get_params(ctx)
        _write_section(formatter, "Arguments", _records(ctx, (p for p in params if p.param_type_name == "argument")))
        options = [param for param in params if param.param_type_name == "option"]
        if len(options) < MANY:
            _write_section(formatter, OTHERS, _records(ctx, options))
            return
        for panel in dict.fromkeys([*(_panel(option) for option in options if _panel(option) != OTHERS), OTHERS]):
            _write_section(formatter, panel, _records(ctx, (o for o in options if _panel(o) == panel)))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Commands to try, each as it is typed: a long one is not broken."""
        lines = EXAMPLES.get(ctx.command_path.partition(" ")[2], ())
        if lines:
            with formatter.section("Examples"):
                for line in lines:
                    formatter.write(f"  {line}\n")


class Section(TyperGroup):
    """The page of a group of commands, by the groups that ``panels`` names; without any, all in one."""

    panels: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  (set once, when the program is built)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One section for each group, in its order; what no group has comes last."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = {name: command.get_short_help_str(WHOLE) for name, command in commands.items() if command is not None}
        grouped = {name for names in self.panels.values() for name in names}
        rest = tuple(name for name in rows if name not in grouped)
        for panel, names in {**self.panels, "Commands": rest}.items():
            _write_section(formatter, panel, [(name, rows[name]) for name in names if name in rows])


def _panel(option: Any) -> str:
    return getattr(option, "rich_help_panel", None) or OTHERS


def _records(ctx: Any, params: Iterable[Any]) -> list[tuple[str, str]]:
    records = (param.get_help_record(ctx) for param in params)
    return [record for record in records if record is not None]


def _write_section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows, col_max=min(WIDEST_NAMES, formatter.width // 3))
