"""Modules that stand in for others while something is imported that names them and does not use them.

A model's file in transformers imports much that no pass through the model ever calls: the table of all architectures,
the classes for pictures and sound, torch's compiler, training on several machines. ``postponed`` keeps such modules out
of the way. What is imported *from* one of them becomes a ``LateName``, which imports the real thing when it is first
used. A name that was not foreseen has the real module imported at once, and so does anybody who imports it later:
a version of transformers that needs more than this one is slower to start, and not wrong.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class LateName:
    """Something of another module, imported when it is called or asked for an attribute, an item or an instance."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    def _found(self) -> Any:
        module, name = self._place
        return getattr(import_module(module), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the real one."""
        return self._found()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._found(), name)

    def __getitem__(self, key: Any) -> Any:
        return self._found()[key]

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._found())


class StandIn(ModuleType):
    """A module of which only ``known`` names are there; any other one has the real module imported."""

    def __init__(self, name: str, known: Mapping[str, object], spec: ModuleSpec | None) -> None:
        super().__init__(name)
        self.__dict__.update(known)
        self.__spec__ = spec
        if spec is not None and spec.submodule_search_locations is not None:
            self.__path__ = list(spec.submodule_search_locations)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self._has_submodule(name):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)

    def _has_submodule(self, name: str) -> bool:
        """Whether the import system, which asks for attributes first, will find a module of that name."""
        return hasattr(self, "__path__") and find_spec(f"{self.__name__}.{name}") is not None


@contextmanager
def postponed(modules: Mapping[str, Mapping[str, object]]) -> Iterator[None]:
    """Stand-ins for ``modules`` with the names that each has, until the block ends; those imported before stay."""
    stand_ins = {}
    for name, known in modules.items():  # a package stands before its submodules
        if name not in sys.modules:
            stand_ins[name] = sys.modules[name] = StandIn(name, known, _spec(name))
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


def late_names(modules: Mapping[str, Collection[str]]) -> dict[str, dict[str, object]]:
    """For each module its names, each to be imported on its first use."""
    return {module: {name: LateName(module, name) for name in names} for module, names in modules.items()}


def _spec(name: str) -> ModuleSpec | None:
    """Where the module is, if that can be told without importing its package."""
    package = name.rpartition(".")[0]
    return find_spec(name) if not package or package in sys.modules else None
