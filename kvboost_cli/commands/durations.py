"""Lengths of time as they are written on a command line."""

import re

import typer

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_duration(text: str, option: str) -> float:
    """Seconds of a time such as ``90``, ``90s``, ``10m`` or ``2h``.

    >>> parse_duration("10m", "--max-time")
    600.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or not float(found[1]):
        raise typer.BadParameter(f"a time is written as in 90s, 10m or 2h, not {text}", param_hint=f"'{option}'")
    return float(found[1]) * _UNITS[found[2]]
