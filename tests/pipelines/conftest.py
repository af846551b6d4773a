"""Lets the tests here share `tiny_models` and `samples`: pytest's importlib mode adds no paths."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "model")]

from samples import Desk
from tiny_models import TinyModels


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models, each saved and loaded once."""
    return TinyModels(tmp_path_factory.mktemp("tiny-models"))


@pytest.fixture
def desk(tiny_models: TinyModels, tmp_path: Path) -> Iterator[Desk]:
    """A folder of documents, a place for a store, and the tiny Llama."""
    yield Desk(tmp_path, tiny_models.path("llama"))
