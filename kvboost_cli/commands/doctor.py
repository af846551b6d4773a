"""``kvboost doctor``: is everything as it should be, and if not, what to do."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from .checkup import Checkup


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("doctor")(doctor)


def doctor(
    store: options.Store = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Measure anew whether this model's KV can be reused.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check installation, model, store and fidelity, and say what to do about each failure."""
    from .. import console
    from .checkup import examine

    settings = options.load({"store": store, "model": model, "device": device, "dtype": dtype})
    checkup = examine(settings, recheck=recheck)
    if as_json:
        console.write_json(_to_json(checkup))
    else:
        console.write(_to_text(checkup))
    if not checkup.healthy:
        raise typer.Exit(1)


def _to_json(checkup: "Checkup") -> dict[str, object]:
    return {
        "checks": [asdict(check) for check in checkup.checks],
        "fidelity": None if checkup.fidelity is None else asdict(checkup.fidelity),
        "healthy": checkup.healthy,
    }


def _to_text(checkup: "Checkup") -> str:
    """A line for each check, and one more for what to do about a failure."""
    lines = []
    for check in checkup.checks:
        lines.append(f"{check.name:<10}{check.state:<13}{check.detail}")
        if check.next_step is not None:
            lines.append(f"{'':<23}next: {check.next_step}")
    return "\n".join(lines) + "\n"
