"""Lets the tests here share `tiny_models`: pytest's importlib mode adds no paths."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny_models import TinyModels


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models, each saved and loaded once."""
    return TinyModels(tmp_path_factory.mktemp("tiny-models"))
