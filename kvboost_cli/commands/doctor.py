"""``kvboost doctor``: is everything as it should be, and if not, what to do."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from .checkup import Check, Checkup
    from .deep_check import DeepCheck


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("doctor", cls=Page)(doctor)


def doctor(
    store: options.Store = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Measure anew whether this model's KV can be reused.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Instead, read everything in the store and check it.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="As --check, and drop what is bad.")] = False,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Check installation, model, store and fidelity, and say what to do about each failure."""
    from .. import console
    from .checkup import examine
    from .deep_check import walk

    settings = options.load({"store": store, "model": model, "device": device, "dtype": dtype})
    if check or repair:
        walked = walk(settings, repair=repair, no_wait=no_wait, quiet=quiet)
        told, text, healthy = _walked_to_json(walked), _to_text(walked.checks), walked.healthy
    else:
        checkup = examine(settings, recheck=recheck)
        told, text, healthy = _to_json(checkup), _to_text(checkup.checks), checkup.healthy
    if as_json:
        console.write_json(told)
    else:
        console.write_facts(text, indent=23)
    if not healthy:
        raise typer.Exit(1)


def _walked_to_json(walked: "DeepCheck") -> dict[str, object]:
    from .deep_check import key_text

    return {
        "store": walked.store,
        "checks": [asdict(check) for check in walked.checks],
        "faults": [
            {"kind": fault.kind, "database": fault.database, "key": key_text(fault), "reason": fault.reason}
            for fault in walked.faults
        ],
        "num_faults": walked.num_faults,
        "bytes_read": walked.num_bytes,
        "seconds": walked.seconds,
        "healthy": walked.healthy,
    }


def _to_json(checkup: "Checkup") -> dict[str, object]:
    return {
        "checks": [asdict(check) for check in checkup.checks],
        "fidelity": None if checkup.fidelity is None else asdict(checkup.fidelity),
        "healthy": checkup.healthy,
    }


def _to_text(checks: "Sequence[Check]") -> str:
    """A line for each check, and one more for what to do about a failure."""
    lines = []
    for check in checks:
        lines.append(f"{check.name:<10}{check.state:<13}{check.detail}")
        if check.next_step is not None:
            lines.append(f"{'':<23}next: {check.next_step}")
    return "\n".join(lines) + "\n"
