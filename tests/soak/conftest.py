"""Long trials of the store: each runs in a short form in the tests, and as `make soak` in the form that proves more.

`make soak` passes `--soak`. All trials are bounded in count or time, and their chances come from a seed.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
sys.path.insert(0, str(Path(__file__).parent))

from desks import Desk
from tiny_models import save_tiny
from trials import LONG, SHORT, Sizes, make_desk


@pytest.fixture(scope="session")
def sizes(request: pytest.FixtureRequest) -> Sizes:
    """The long form with `--soak`."""
    return LONG if request.config.getoption("--soak") else SHORT


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama."""
    return save_tiny("llama", tmp_path_factory.mktemp("models") / "llama", seed=0)


@pytest.fixture
def desk(tmp_path: Path, tiny_llama: Path, shared_cache: Path) -> Desk:
    """Documents whose store does not exist yet; all kept unquantized in fp32, so that exact KV is exact."""
    return make_desk(tmp_path, tiny_llama, shared_cache)


@pytest.fixture
def stocked(desk: Desk) -> Desk:
    """The same, indexed."""
    done = desk.run("index", "docs", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    return desk
