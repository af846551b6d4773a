"""Modules that others stand in for while something is imported: real modules in a folder of the test's own."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kvboost_cli.model.standins import LateName, late_names, postponed

HEAVY = """
class Ship:
    harbour = "Trondheim"

FARES = {"child": 3}

def double(number, *, plus=0):
    return 2 * number + plus
"""
USER = """
from heavy_ships import Ship, double
from heavy_ships.engines import start

def is_ship(thing):
    return isinstance(thing, Ship)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that is heavy and a module that imports from it; neither is imported yet."""
    package = tmp_path / "heavy_ships"
    package.mkdir()
    (package / "__init__.py").write_text(HEAVY)
    (package / "engines.py").write_text("def start():\n    return 'started'\n")
    (tmp_path / "ship_user.py").write_text(USER)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("heavy_ships", "ship_user"))]:
        del sys.modules[name]


SHIPS = late_names({"heavy_ships": ["Ship", "double", "FARES"], "heavy_ships.engines": ["start"]})


@pytest.mark.usefixtures("folder")
def test_a_postponed_module_is_imported_when_what_it_has_is_used() -> None:
    with postponed(SHIPS):
        user = import_module("ship_user")
    assert "heavy_ships" not in sys.modules
    assert user.double(4, plus=1) == 9
    assert "heavy_ships" in sys.modules
    assert "heavy_ships.engines" not in sys.modules
    assert user.start() == "started"


@pytest.mark.usefixtures("folder")
def test_a_late_name_is_as_good_as_the_class_and_the_table_themselves() -> None:
    with postponed(SHIPS):
        user = import_module("ship_user")
    fares = LateName("heavy_ships", "FARES")
    assert not user.is_ship("a ship")
    assert user.is_ship(import_module("heavy_ships").Ship())
    assert (user.Ship.harbour, fares["child"]) == ("Trondheim", 3)
    with pytest.raises(AttributeError):
        _ = user.Ship.captain


def test_a_name_that_was_not_foreseen_has_the_real_module_imported(folder: Path) -> None:
    (folder / "ship_user.py").write_text("from heavy_ships import FARES, Ship\n")
    with postponed({"heavy_ships": {"Ship": None}}):
        user = import_module("ship_user")
        assert user.FARES == {"child": 3}
    assert sys.modules["heavy_ships"].__file__ == str(folder / "heavy_ships" / "__init__.py")


def test_a_package_that_is_stood_in_for_has_its_parts(folder: Path) -> None:
    (folder / "ship_user.py").write_text("import heavy_ships.engines\nfrom heavy_ships import engines\n")
    with postponed({"heavy_ships": {}}):
        engines = import_module("ship_user").engines
    assert "heavy_ships" not in sys.modules
    assert import_module("heavy_ships").double(2) == 4
    assert import_module("heavy_ships.engines") is engines


@pytest.mark.usefixtures("folder")
def test_a_module_that_is_there_already_stays() -> None:
    real = import_module("heavy_ships")
    with postponed(SHIPS):
        user = import_module("ship_user")
    assert user.Ship is real.Ship
    assert sys.modules["heavy_ships"] is real


def test_nothing_is_left_behind_when_an_import_fails(folder: Path) -> None:
    (folder / "ship_user.py").write_text("import heavy_ships\nraise ImportError('no water')\n")
    with pytest.raises(ImportError, match="no water"), postponed(SHIPS):
        import_module("ship_user")
    assert not {"heavy_ships", "heavy_ships.engines", "ship_user"} & sys.modules.keys()
