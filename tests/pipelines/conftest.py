"""Lets the tests here share `tiny_models` and `samples`: pytest's importlib mode adds no paths."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
sys.path.insert(0, str(Path(__file__).parent))

from samples import Desk
from tiny_models import TinyModels


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models, each saved and loaded once."""
    return TinyModels(tmp_path_factory.mktemp("tiny-models"))


@pytest.fixture
def desk(tiny_models: TinyModels, tmp_path: Path) -> Desk:
    """A folder of documents, a place for a store, and the tiny Llama."""
    return Desk(tmp_path, tiny_models.path("llama"))
