"""What the fidelity gate found is kept in the store and in the user's cache, and trusted only where it belongs."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from samples import Desk, make_text
from tiny_models import TinyModels

from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.fidelity import (
    LATEST_NAME,
    META_PREFIX,
    FidelityResult,
    FidelityShelf,
    GateKey,
    latest_result,
    parse_result,
)
from kvboost_cli.pipelines.gate import gate_key
from kvboost_cli.pipelines.recipe import Recipe, make_recipe
from store import ChunkStore

RECIPE = make_recipe(None, None, 16)


def make_result(workspace_recipe: Recipe, handle: ModelHandle, **changes: object) -> FidelityResult:
    """A result as a run on this machine would give it."""
    key = gate_key(handle, workspace_recipe)
    facts: dict[str, object] = {
        "passed": True, "reason": None, "machinery_passed": True, "machinery_kl": 1e-9,
        "machinery_max_logit_diff": 1e-6, "kl_mean": 0.05, "kl_first": 0.1, "top1_agreement": 0.875, "at": 1.8e9,
        "seconds": 0.5, "model": key.model, "recipe": key.recipe, "machine": key.machine, "repair": key.repair,
    }  # fmt: skip
    return FidelityResult(**(facts | changes))  # type: ignore[arg-type]


@pytest.fixture
def handle(tiny_models: TinyModels, tmp_path: Path) -> ModelHandle:
    return ModelHandle("llama", tiny_models.path("llama"), "cpu", "float32", tmp_path)


def test_a_result_survives_being_kept(handle: ModelHandle) -> None:
    for changes in ({}, {"passed": False, "reason": "with reuse \u2026", "kl_mean": None}):
        result = make_result(RECIPE, handle, **changes)
        assert parse_result(result.to_bytes()) == result


def damage_number(data: bytes) -> bytes:
    return data.replace(b"0.05", b"0.06")


def drop_field(data: bytes) -> bytes:
    entry = json.loads(data)
    del entry["result"]["reason"]
    return json.dumps(entry).encode()


@pytest.mark.parametrize(
    "change", [damage_number, drop_field, lambda data: data[:-20], lambda _: b"", lambda _: b"\xff", lambda _: b"[1]"]
)
def test_a_damaged_entry_is_none(handle: ModelHandle, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    result = make_result(RECIPE, handle)
    assert parse_result(change(result.to_bytes())) is None
    shelf = FidelityShelf(None, tmp_path)
    shelf.keep(result)
    (file,) = (tmp_path / "fidelity").iterdir()
    file.write_bytes(change(file.read_bytes()))
    assert shelf.find(result.key) is None
    shelf.keep(result)
    assert shelf.find(result.key) == result


def test_an_entry_of_another_model_recipe_machine_or_repair_is_none(handle: ModelHandle, tmp_path: Path) -> None:
    shelf, result = FidelityShelf(None, tmp_path), make_result(RECIPE, handle)
    shelf.keep(result)
    (file,) = (tmp_path / "fidelity").iterdir()
    for name in ("model", "recipe", "machine", "repair"):
        other: GateKey = replace(result.key, **{name: "another"})
        assert shelf.find(other) is None
        file.with_name(f"{other.digest}.json").write_bytes(file.read_bytes())
        assert shelf.find(other) is None, "a copy under another name is not taken for its own"


def test_a_second_store_of_the_same_model_learns_it_from_the_cache(desk: Desk, tmp_path: Path) -> None:
    desk.write("a.md", make_text(1, 1))
    desk.index()
    with desk.workspace() as workspace:
        result = make_result(workspace.recipe, workspace.handle)
        FidelityShelf(None, tmp_path).keep(result)
        assert FidelityShelf(workspace.store, tmp_path).find(result.key) == result
        assert FidelityShelf(workspace.store, tmp_path / "elsewhere").find(result.key) == result
        with workspace.store.snapshot() as snapshot:
            assert latest_result(snapshot, workspace.store.identity) == result


def test_stores_show_the_newest_result_of_their_own_recipe(desk: Desk, tmp_path: Path) -> None:
    with desk.workspace() as workspace:
        shelf, identity = FidelityShelf(workspace.store, tmp_path), workspace.store.identity
        for at in (1.0, 2.0):
            shelf.keep(make_result(workspace.recipe, workspace.handle, at=at, machine=f"machine {at}"))
        with workspace.store.snapshot() as snapshot:
            newest = latest_result(snapshot, identity)
        assert newest is not None
        assert newest.at == 2.0
        shelf.keep(make_result(make_recipe(4, 2, 16), workspace.handle))
        with workspace.store.snapshot() as snapshot:
            assert latest_result(snapshot, identity) is None


def test_a_store_that_cannot_be_written_leaves_it_to_the_cache(desk: Desk, tmp_path: Path) -> None:
    with desk.workspace() as workspace:
        result = make_result(workspace.recipe, workspace.handle)
    with ChunkStore.open(desk.root / "store", readonly=True) as store:
        FidelityShelf(store, tmp_path).keep(result)
        assert FidelityShelf(store, tmp_path).find(result.key) == result
        with store.snapshot() as snapshot:
            assert snapshot.meta(META_PREFIX + result.key.digest) is snapshot.meta(LATEST_NAME) is None
    assert [path.suffix for path in (tmp_path / "fidelity").iterdir()] == [".json"], "nothing half written stays"


def test_a_cache_that_cannot_be_written_leaves_it_to_the_store(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with desk.workspace() as workspace:
        result = make_result(workspace.recipe, workspace.handle)
        shelf = FidelityShelf(workspace.store, tmp_path / "file")
        shelf.keep(result)
        assert shelf.find(result.key) == result
