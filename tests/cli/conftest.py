"""A desk for each test: an indexed folder of documents, a copy of its store, and the script to run on them.

The model is a tiny random Llama, so that a run costs its start-up and little else.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "model")]

from tiny_models import save_tiny

SCRIPT = Path(sys.executable).with_name("kvboost")
HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"

Done = subprocess.CompletedProcess[str]
Kvboost = Callable[..., Done]


@dataclass(frozen=True)
class Desk:
    """``docs`` is shared and must not be changed; ``root``, the working directory, and ``store`` are the test's own."""

    root: Path
    docs: Path
    store: Path
    env: dict[str, str]

    def run(
        self, *args: str | Path, stdin: str | bytes = b"", prefix: tuple[str, ...] = (), **popen: Any
    ) -> subprocess.CompletedProcess[str]:
        """One run of the script; what it prints has to be UTF-8."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        command = [*prefix, SCRIPT, *args]
        done = subprocess.run(
            command, cwd=self.root, env=self.env, input=data, capture_output=True, check=False, **popen
        )
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str | Path, **popen: Any) -> subprocess.Popen[str]:
        """The same without waiting; both streams are pipes unless told otherwise."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        return subprocess.Popen([SCRIPT, *args], cwd=self.root, env=self.env, text=True, **streams)

    def facts(self, *args: str | Path, stdin: str | bytes = b"", code: int = 0) -> Any:
        """The JSON object of a run that has to end with ``code``."""
        done = self.run(*args, "--json", stdin=stdin)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, text: str | bytes) -> Path:
        """A file in the test's own folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def with_env(self, **changes: str) -> "Desk":
        """The same desk in another environment."""
        return Desk(self.root, self.docs, self.store, self.env | changes)


@pytest.fixture(scope="session")
def model_dirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two tiny models that differ in their weights alone."""
    root = tmp_path_factory.mktemp("models")
    return save_tiny("llama", root / "one", seed=0), save_tiny("llama", root / "other", seed=7)


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory, model_dirs: tuple[Path, Path]) -> Desk:
    """The handbook, indexed once."""
    root = tmp_path_factory.mktemp("stocked")
    docs = Path(shutil.copytree(HANDBOOK, root / "docs"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("KVBOOST_")}
    env |= {f"XDG_{kind}_HOME": str(root / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
    env |= {"NO_COLOR": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env |= {"KVBOOST_MODEL": str(model_dirs[0]), "KVBOOST_STORE": str(root / "store"), "KVBOOST_MAX_TOKENS": "3"}
    desk = Desk(root, docs, root / "store", env)
    done = desk.run("index", "docs", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return desk


@pytest.fixture
def desk(stocked: Desk, tmp_path: Path) -> Desk:
    """The stocked desk with a store of the test's own."""
    store = Path(shutil.copytree(stocked.store, tmp_path / "store"))
    return Desk(tmp_path, stocked.docs, store, stocked.env | {"KVBOOST_STORE": str(store)})


@pytest.fixture
def bare_desk(stocked: Desk, tmp_path: Path) -> Desk:
    """A desk whose store does not exist yet."""
    return Desk(tmp_path, stocked.docs, tmp_path / "store", stocked.env | {"KVBOOST_STORE": str(tmp_path / "store")})
