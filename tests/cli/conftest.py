"""A desk for each test: an indexed folder of documents, a copy of its store, and the script to run on them.

The model is a tiny random Llama, so that a run costs its start-up and little else.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
sys.path.insert(0, str(Path(__file__).parent))

from desks import Desk
from tiny_models import CONFIGS, make_model, save_tiny, save_tokenizer

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"


@pytest.fixture(scope="session")
def model_dirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two tiny models that differ in their weights alone."""
    root = tmp_path_factory.mktemp("models")
    return save_tiny("llama", root / "one", seed=0), save_tiny("llama", root / "other", seed=7)


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory, model_dirs: tuple[Path, Path], shared_cache: Path) -> Desk:
    """The handbook, indexed once."""
    root = tmp_path_factory.mktemp("stocked")
    docs = Path(shutil.copytree(HANDBOOK, root / "docs"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("KVBOOST_")}
    env |= {f"XDG_{kind}_HOME": str(root / kind.lower()) for kind in ("DATA", "CONFIG")}
    env |= {"XDG_CACHE_HOME": str(shared_cache)}
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


@pytest.fixture(scope="session")
def sharp_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose distributions are so sharp that any other context garbles them."""
    directory = tmp_path_factory.mktemp("sharp") / "model"
    module = make_model(CONFIGS["llama"]())
    with torch.no_grad():
        module.get_output_embeddings().weight.mul_(60)
    module.save_pretrained(directory)
    save_tokenizer(directory)
    return directory


@pytest.fixture
def failing(stocked: Desk, sharp_model: Path, tmp_path: Path) -> Desk:
    """A desk with a model that fails its fidelity gate; nothing is indexed."""
    docs, store = tmp_path / "docs", tmp_path / "store"
    docs.mkdir()
    for name in ("access.md", "on-call.md"):
        shutil.copy(stocked.docs / name, docs)
    return Desk(tmp_path, docs, store, stocked.env | {"KVBOOST_MODEL": str(sharp_model), "KVBOOST_STORE": str(store)})
