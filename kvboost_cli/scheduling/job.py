"""What is to be run, complete: nothing is left to the PATH, the folder or the variables of whoever runs it."""

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

KEPT_VARIABLES = (
    "HF_HOME", "HF_HUB_OFFLINE", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
)  # fmt: skip
"""Variables of the system that decide where things are and how is computed."""

SETTING_PREFIX = "KVBOOST_"
LEFT_OUT = frozenset({"KVBOOST_STORE", "KVBOOST_DEBUG"})
"""The store is in the command; tracebacks are for people who are there."""


@dataclass(frozen=True)
class Job:
    """``script`` is the absolute path of kvboost; ``folder``, if any, is where its settings file is found from.

    ``arguments`` come behind ``prewarm --store ... --log ...``.
    """

    script: Path
    store: Path
    log: Path
    folder: Path | None
    environment: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What its line or units are found by."""
        return job_name(self.store)

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (str(self.script), "prewarm", "--store", str(self.store), "--log", str(self.log), *self.arguments)

    @property
    def shell_command(self) -> str:
        """For a shell with next to no environment: variables, the lowest priorities, and then the command."""
        variables = [f"{name}={value}" for name, value in self.environment]
        words = [*(["/usr/bin/env", *variables] if variables else []), *_priorities(), *self.command]
        change = [] if self.folder is None else [f"cd {shlex.quote(str(self.folder))} &&"]
        return " ".join([*change, *map(shlex.quote, words)])

    @property
    def minute(self) -> int:
        """A minute of the hour, so that the jobs of several stores do not begin together."""
        return int(self.name[-8:], 16) % 60


def job_name(store: Path) -> str:
    """Tells the jobs of several stores apart."""
    return f"kvboost-prewarm-{blake3(os.fsencode(store)).hexdigest()[:8]}"


def kept_environment(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that a run needs, in a fixed order."""
    names = [*KEPT_VARIABLES, *sorted(name for name in environment if name.startswith(SETTING_PREFIX))]
    return tuple((name, environment[name]) for name in names if environment.get(name) and name not in LEFT_OUT)


def _priorities() -> list[str]:
    """The lowest priority for the processor, and the idle class for the disk, where the system has the programs."""
    nice, ionice = shutil.which("nice"), shutil.which("ionice")
    return [*([nice, "-n", "19"] if nice else []), *([ionice, "-c", "3"] if ionice else [])]
