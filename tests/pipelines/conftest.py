"""Lets the tests here share `tiny_models` and `samples`: pytest's importlib mode adds no paths."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
sys.path.insert(0, str(Path(__file__).parent))

from carrying import contents, export_bundle
from samples import Desk, make_text
from tiny_models import TinyModels

from kvboost_cli.pipelines.workspace import Workspace


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models, each saved and loaded once."""
    return TinyModels(tmp_path_factory.mktemp("tiny-models"))


@pytest.fixture
def desk(tiny_models: TinyModels, tmp_path: Path) -> Desk:
    """A folder of documents, a place for a store, and the tiny Llama."""
    return Desk(tmp_path, tiny_models.path("llama"))


@pytest.fixture
def two(desk: Desk) -> tuple[Desk, Path, Path]:
    """Two documents, one of them not stored, none exact: all stored KV has to be recomputed."""
    desk.exact = False
    stored, unknown = desk.write("a.md", make_text(1, 2)), desk.write("b.md", make_text(2, 1))
    desk.index(stored)
    return desk, stored, unknown


@pytest.fixture(scope="session")
def bundle(tiny_models: TinyModels, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two documents that share all chunks but the first, and one of its own."""
    desk = Desk(tmp_path_factory.mktemp("fuzz"), tiny_models.path("llama"))
    for name, seed in (("a.md", 1), ("b.md", 2), ("copy.md", 1)):
        desk.write(name, make_text(seed, 4))
    desk.index()
    export_bundle(desk, desk.root / "all.kvb")
    return (desk.root / "all.kvb").read_bytes()


@pytest.fixture
def guarded(desk: Desk) -> Iterator[Workspace]:
    """A store with a document of its own, which has to stay as it is."""
    desk.write("own.md", make_text(8))
    desk.index()
    before = contents(desk.root / "store")
    with desk.workspace() as workspace:
        yield workspace
    assert contents(desk.root / "store") == before


@pytest.fixture
def stocked(desk: Desk) -> Desk:
    """Three documents; one of them a copy, so that two share all chunks but the first."""
    desk.write("a.md", make_text(1))
    desk.write("b.md", make_text(2, 7))
    desk.write("sub/copy.md", make_text(1))
    desk.index()
    return desk
