"""What many tests share: the real `kvboost` script in a home of its own, and the real default model."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvboost_cli.model.catalog import DEFAULT_MODEL, resolve_model
from kvboost_cli.model.pull import pull_model
from kvboost_cli.settings import user_model_dir

# Most tests compute next to nothing, and several processes at once: threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SCRIPT = Path(sys.executable).with_name("kvboost")

Kvboost = Callable[..., subprocess.CompletedProcess[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make soak` runs the trials of tests/soak in their long form."""
    parser.addoption("--soak", action="store_true", help="run the trials of tests/soak in their long form")


@pytest.fixture(scope="session")
def default_model_dir() -> Path:
    """The directory of the default model, fetched once into the user's model directory."""
    for step in pull_model(DEFAULT_MODEL, user_model_dir()):
        print(step)
    return resolve_model(DEFAULT_MODEL.name, user_model_dir()).path


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all runs with a model: its weights are hashed, and the fidelity gate is passed, once a session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def home_env(tmp_path: Path) -> dict[str, str]:
    """An environment without this user's settings: data, config and cache below `tmp_path`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KVBOOST_")}
    home = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
    return env | home | {"NO_COLOR": "1"}


@pytest.fixture
def kvboost(tmp_path: Path, home_env: dict[str, str]) -> Kvboost:
    """Run the installed script in `tmp_path`: `kvboost("path", "--json", env={...}, stdin="...")`."""

    def run(
        *args: str | Path, env: dict[str, str] | None = None, stdin: str = "", cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *args],
            cwd=cwd,
            env=home_env | (env or {}),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
