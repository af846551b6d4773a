"""Where a model's config is, whether or not its weights are there, too: nothing is fetched."""

from pathlib import Path

from .catalog import CATALOG, DEFAULT_MODEL, ResolvedModel, is_pulled
from .errors import ModelNotFound


def find_config(spec: str | None, model_dir: Path) -> ResolvedModel:
    """Name and ``config.json`` of a catalog model, a directory, a file, or a hub id that is in the hub's cache."""
    if spec is None or spec in CATALOG:
        model = CATALOG.get(spec or "", DEFAULT_MODEL)
        if not is_pulled(model, model_dir / model.name):
            raise ModelNotFound(f"the model is not fetched yet: {model.name}")
        return ResolvedModel(model.name, model_dir / model.name / "config.json")
    path = Path(spec).expanduser()
    if path.is_dir():
        return ResolvedModel(path.resolve().name, path / "config.json")
    if path.is_file():
        return ResolvedModel(path.resolve().parent.name if path.name == "config.json" else path.stem, path)
    if spec.startswith((".", "~", "/")) or spec.count("/") > 1:
        raise ModelNotFound(f"there is no model directory: {spec}")
    return ResolvedModel(spec, _in_hub_cache(spec))


def _in_hub_cache(spec: str) -> Path:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(spec, "config.json")
    except HFValidationError as error:
        raise ModelNotFound(f"this is neither a model directory nor a hub id: {spec}") from error
    if not isinstance(found, str):
        raise ModelNotFound(f"the hub's cache has no config of this model: {spec}")
    return Path(found)
