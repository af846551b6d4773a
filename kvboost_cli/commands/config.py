"""``kvboost config``: what is set, where it was set, and a settings file to begin with."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .pages import Page, Section

if TYPE_CHECKING:
    from pathlib import Path

    from ..settings_view import TracedSetting


def register(app: typer.Typer) -> None:
    """Add the group to ``app``."""
    group = typer.Typer(
        help="Show what is set and where, or begin a settings file.", rich_markup_mode=None, cls=Section
    )
    group.command("show", cls=Page)(show)
    group.command("path", cls=Page)(path)
    group.command("init", cls=Page)(init)
    app.add_typer(group, name="config")


def show(
    store: options.Store = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
) -> None:
    """Show every setting with its value, and the flag, variable or file that it comes from."""
    from .. import console, settings, settings_view

    flags = {"store": store, "model": model, "device": device, "dtype": dtype}
    traced, store_dir = settings_view.trace_settings(flags), settings.load_settings(flags).store_dir
    for name, meant in settings_view.unknown_variables().items():
        console.warn(f"this variable sets nothing{f' (did you mean {meant}?)' if meant else ''}: {name}")
    if as_json:
        console.write_json({"settings": [_to_json(one) for one in traced], "store_dir": str(store_dir)})
        return
    rows = [(one.key, str(store_dir) if one.key == "store" else _shown(one), one.place or one.origin) for one in traced]
    console.render_table("", ("setting", "value", "from"), rows, data=True)


def path(as_json: options.AsJson = False) -> None:
    """Show the settings files: this project's and the user's, and whether they are there."""
    from pathlib import Path

    from .. import console, settings

    project, user = settings.find_project_file(Path.cwd()), settings.user_config_file()
    if as_json:
        facts = {"project": project and str(project), "user": str(user), "user_exists": user.is_file()}
        console.write_json(facts)
        return
    console.write_facts(f"project: {project or '-'}\nuser: {user}{'' if user.is_file() else ' (not there)'}\n")


def init(
    user: Annotated[bool, typer.Option("--user", help="The user's file, not this folder's kvboost.toml.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there.")] = False,
) -> None:
    """Write a settings file that explains every setting and sets none."""
    from pathlib import Path

    from .. import console, settings, settings_view

    target = settings.user_config_file() if user else Path.cwd() / settings.PROJECT_FILE
    _write(target, settings_view.settings_template(), force=force)
    console.write(f"{target}\n")


def _write(target: "Path", text: str, *, force: bool) -> None:
    from ..settings import SettingsFileExists

    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(target, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise SettingsFileExists(f"there is a settings file already: {target}") from error


def _shown(one: "TracedSetting") -> str:
    from ..setting_facts import SETTING_FACTS

    if one.value is None:
        return SETTING_FACTS[one.key].default
    return str(one.value).lower() if isinstance(one.value, bool) else str(one.value)


def _to_json(one: "TracedSetting") -> dict[str, object]:
    from pathlib import Path

    value = str(one.value) if isinstance(one.value, Path) else one.value
    return {"key": one.key, "value": value, "origin": one.origin, "place": one.place}
