"""What the user can set, read and validated once at the edge; lower layers get plain values.

Precedence, first wins: flag, ``KVBOOST_*`` environment, ``kvboost.toml`` of the project (searched from the
working directory upward), ``config.toml`` of the user, the default. pydantic is imported only when there is
something to check.

::

    SettingsError             a settings file cannot be read, or holds an unknown key or a bad value
    +-- SettingsFileExists    a new one would replace another
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import platformdirs
from annotated_types import Ge, Gt, Le

from .setting_facts import SETTING_FACTS

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PROJECT_FILE = "kvboost.toml"
ENV_PREFIX = "KVBOOST_"
DEBUG_VARIABLE = "KVBOOST_DEBUG"


class SettingsError(Exception):
    """The settings are wrong; the message names the file, variable or flag, the key and the bad value."""


class SettingsFileExists(SettingsError):
    """There is a settings file already; the message names it."""


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
    history: bool = True
    report: Literal["full", "line", "none"] = "full"
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
    """Values from one place. ``names`` maps a key to what the user wrote: ``KVBOOST_BITS``, ``--bits``.

    ``origin`` is ``flag``, ``environment``, ``project`` or ``user``; ``path`` that of a file.
    """

    origin: str
    names: Mapping[str, str]
    values: Mapping[str, object]
    path: Path | None = None


def load_settings(flags: Mapping[str, object]) -> Settings:
    """Merge all sources; a flag that is ``None`` was not given.

    Raises ``SettingsError`` at the first fault.
    """
    settings = Settings()
    for source in read_sources(flags):
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


def chat_history_file() -> Path:
    """Where the lines that were typed into ``kvboost chat`` are kept."""
    return platformdirs.user_data_path("kvboost") / "chat-history"


def user_log_dir() -> Path:
    """Where logs are: in no folder that somebody would index, since each run would then find a changed document."""
    return platformdirs.user_log_path("kvboost")


def parse_bytes(name: str, text: str, least: int = 1) -> int:
    """The bytes that a size such as ``500MB`` or ``2GiB`` means; ``name`` is where it was written."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = -1
    if size < least:
        raise SettingsError(f"{name} should be a size such as 500MB or 2GiB: {text!r}")
    return size


def debug_wanted() -> bool:
    """Whether ``KVBOOST_DEBUG=1`` asks for the traceback of an internal error."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def read_sources(flags: Mapping[str, object]) -> Iterator[Source]:
    """All that has values, the weakest first."""
    yield from _file_sources()
    yield _environment_source()
    yield _flag_source(flags)


def _file_sources() -> Iterator[Source]:
    for origin, path in (("user", user_config_file()), ("project", find_project_file(Path.cwd()))):
        if path is not None and path.is_file():
            values = _read_toml(path)
            yield Source(origin, {key: f"{path}: {key}" for key in values}, values, path)


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
    return Source("environment", names, values)


def _flag_source(flags: Mapping[str, object]) -> Source:
    given = {key: value for key, value in flags.items() if value is not None}
    return Source("flag", {key: "--" + key.replace("_", "-") for key in given}, given)


def _validate(source: Source) -> Settings:
    """``source`` checked by itself, so that a fault is reported where it was written."""
    if not source.values:
        return Settings()
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(Settings)
    try:
        if source.origin == "environment":
            return adapter.validate_strings(dict(source.values))
        if source.path is None:
            return adapter.validate_python(dict(source.values))
        # strictly as JSON: a file says what type it means, while Path and Bits still come from text and number
        return adapter.validate_json(json.dumps(source.values, default=_no_setting), strict=True)
    except ValidationError as error:
        raise SettingsError(_describe(error.errors()[0], source)) from error


def _no_setting(value: object) -> object:
    """A date or time of TOML as what no setting accepts."""
    return {"toml": str(value)}


def _describe(fault: ErrorDetails, source: Source) -> str:
    key = str(fault["loc"][0])
    if fault["type"] == "unexpected_keyword_argument":
        meant = difflib.get_close_matches(key, SETTING_FACTS, n=1)
        suggestion = f" (did you mean {meant[0]}?)" if meant else ""
        return f"there is no such setting{suggestion}: {source.names[key]}"
    return f"{source.names[key]} should be {SETTING_FACTS[key].allowed}: {_shown(source.values[key])}"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
