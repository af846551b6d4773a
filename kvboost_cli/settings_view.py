"""What is set and where, for people: each setting's origin, variables that set nothing, a file to begin with."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from .setting_facts import SETTING_FACTS
from .settings import DEBUG_VARIABLE, ENV_PREFIX, Settings, load_settings, read_sources

TEMPLATE_HEAD = """\
# Settings of kvboost; take the # away before what you set.
# First wins: flag, KVBOOST_* variable, kvboost.toml of the project, config.toml of the user, default.
# `kvboost config show` tells what is set and where.
"""


@dataclass(frozen=True, slots=True)
class TracedSetting:
    """A setting's value, where it comes from, and the file, variable or flag; a default has none."""

    key: str
    value: object
    origin: str
    place: str | None


def trace_settings(flags: Mapping[str, object]) -> list[TracedSetting]:
    """Every setting with its origin; raises what ``load_settings`` raises."""
    settings = load_settings(flags)
    origins: dict[str, tuple[str, str]] = {}
    for source in read_sources(flags):
        for key in source.values:
            origins[key] = (source.origin, str(source.path or source.names[key]))
    traced = []
    for field in fields(Settings):
        origin, place = origins.get(field.name, ("default", None))
        traced.append(TracedSetting(field.name, getattr(settings, field.name), origin, place))
    return traced


def unknown_variables() -> dict[str, str | None]:
    """``KVBOOST_*`` variables that set nothing, each with the one that may have been meant."""
    known = [field.name.upper() for field in fields(Settings)]
    others = sorted(name for name in os.environ if name.startswith(ENV_PREFIX) and name != DEBUG_VARIABLE)
    keys = {name: name.removeprefix(ENV_PREFIX) for name in others}
    return {name: _nearest(key, known) for name, key in keys.items() if key not in known}


def _nearest(key: str, known: list[str]) -> str | None:
    meant = difflib.get_close_matches(key, known, n=1)
    return ENV_PREFIX + meant[0] if meant else None


def settings_template() -> str:
    """A settings file that explains every setting and sets none."""
    parts = [TEMPLATE_HEAD]
    for key, fact in SETTING_FACTS.items():
        parts.append(f"# {fact.meaning}\n#   {fact.allowed}; default: {fact.default}\n# {key} = {fact.example}\n")
    return "\n".join(parts)
