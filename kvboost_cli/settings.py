"""What the user can set, read and validated once at the edge; lower layers get plain values.

Precedence, first wins: flag, ``KVBOOST_*`` environment, ``kvboost.toml`` of the project (searched from the
working directory upward), ``config.toml`` of the user, the default. pydantic is imported only when there is
something to check.

::

    SettingsError    a settings file cannot be read, or holds an unknown key or a bad value
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import platformdirs
from annotated_types import Ge, Gt, Le

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PROJECT_FILE = "kvboost.toml"
ENV_PREFIX = "KVBOOST_"


class SettingsError(Exception):
    """The settings are wrong; the message names the file, variable or flag, the key and the bad value."""


class Bits(IntEnum):
    """Bits per stored number; 16 means not quantized. An enum, so that the string ``"8"`` is understood."""

    INT4 = 4
    INT8 = 8
    HALF = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """Every value that a flag, a variable or a file can set. ``None`` leaves the choice to store or model."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    store: Path | None = None
    model: str | None = None
    bits: Bits | None = None
    contexts: Annotated[int, Ge(0), Le(64)] | None = None
    exact: bool | None = None
    top_k: Annotated[int, Ge(1)] = 4
    order: Literal["given", "score", "exact"] = "given"
    max_tokens: Annotated[int, Ge(1)] = 256
    temperature: Annotated[float, Ge(0), Le(100)] = 0.0
    repair: Literal["auto", "none", "selective", "cacheblend", "question"] = "auto"
    ratio: Annotated[float, Gt(0), Le(1)] | None = None
    system: str | None = None
    device: Literal["auto", "cuda", "mps", "cpu"] = "auto"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"

    @property
    def store_dir(self) -> Path:
        """The store's directory: the one that was set, else the default one for the working directory."""
        if self.store is not None:
            return self.store.expanduser()
        return default_store_path(find_project_file(Path.cwd()))


@dataclass(frozen=True, slots=True)
class Source:
    """Values from one place. ``names`` maps a key to what the user wrote: ``KVBOOST_BITS``, ``--bits``."""

    names: Mapping[str, str]
    values: Mapping[str, object]
    is_text: bool = False


def load_settings(flags: Mapping[str, object]) -> Settings:
    """Merge all sources; a flag that is ``None`` was not given.

    Raises ``SettingsError`` at the first fault.
    """
    settings = Settings()
    for source in (*_file_sources(), _environment_source(), _flag_source(flags)):
        valid = _validate(source)
        settings = replace(settings, **{key: getattr(valid, key) for key in source.values})
    return settings


def find_project_file(start: Path) -> Path | None:
    """The nearest ``kvboost.toml`` in ``start`` or a directory above it."""
    candidates = (folder / PROJECT_FILE for folder in (start, *start.parents))
    return next((path for path in candidates if path.is_file()), None)


def user_config_file() -> Path:
    """The user's own settings file, whether or not it exists."""
    return platformdirs.user_config_path("kvboost") / "config.toml"


def default_store_path(project_file: Path | None) -> Path:
    """``.kvboost/`` beside the project file, else ``store/`` in the user's data directory."""
    if project_file is not None:
        return project_file.parent / ".kvboost"
    return platformdirs.user_data_path("kvboost") / "store"


def user_model_dir() -> Path:
    """Where pulled models live, one directory each."""
    return platformdirs.user_data_path("kvboost") / "models"


def user_cache_dir() -> Path:
    """Where kvboost keeps what it can make again."""
    return platformdirs.user_cache_path("kvboost")


def parse_bytes(name: str, text: str) -> int:
    """The bytes that a size such as ``500MB`` or ``2GiB`` means; ``name`` is where it was written."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if size < 1:
        raise SettingsError(f"{name} should be a size such as 500MB or 2GiB: {text!r}")
    return size


def debug_wanted() -> bool:
    """Whether ``KVBOOST_DEBUG=1`` asks for the traceback of an internal error."""
    return os.environ.get(f"{ENV_PREFIX}DEBUG", "") not in ("", "0")


def _file_sources() -> Iterator[Source]:
    for path in (user_config_file(), find_project_file(Path.cwd())):
        if path is not None and path.is_file():
            values = _read_toml(path)
            yield Source({key: f"{path}: {key}" for key in values}, values)


def _read_toml(path: Path) -> dict[str, object]:
    """A file's values; a relative path in them starts at the file's own directory."""
    try:
        values: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise SettingsError(f"a settings file cannot be read ({error.strerror}): {path}") from error
    return {key: _anchor(key, value, path.parent) for key, value in values.items()}


def _anchor(key: str, value: object, folder: Path) -> object:
    """``store``, and a ``model`` that is written as a path, relative to the folder of their file."""
    is_path = key == "store" or (key == "model" and str(value).startswith((".", "~", "/")))
    return str(folder / Path(value).expanduser()) if is_path and isinstance(value, str) else value


def _environment_source() -> Source:
    names = {field.name: ENV_PREFIX + field.name.upper() for field in fields(Settings)}
    values = {key: os.environ[name] for key, name in names.items() if os.environ.get(name)}
    return Source(names, values, is_text=True)


def _flag_source(flags: Mapping[str, object]) -> Source:
    given = {key: value for key, value in flags.items() if value is not None}
    return Source({key: "--" + key.replace("_", "-") for key in given}, given)


def _validate(source: Source) -> Settings:
    """``source`` checked by itself, so that a fault is reported where it was written."""
    if not source.values:
        return Settings()
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(Settings)
    check = adapter.validate_strings if source.is_text else adapter.validate_python
    try:
        return check(dict(source.values))
    except ValidationError as error:
        raise SettingsError(_describe(error.errors()[0], source)) from error


def _describe(fault: ErrorDetails, source: Source) -> str:
    name = source.names[str(fault["loc"][0])]
    if fault["type"] == "unexpected_keyword_argument":
        return f"there is no such setting: {name}"
    reason = fault["msg"].removeprefix("Input ")
    return f"{name} {reason[0].lower()}{reason[1:]}: {fault['input']!r}"
