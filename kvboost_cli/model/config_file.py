"""A model's ``config.json`` as it is written. Needs no transformers."""

import json
from pathlib import Path
from typing import Any

from .errors import ModelNotFound, ModelUnsupported


def read_config_file(file: Path) -> dict[str, Any]:
    """All of it. Raises ``ModelNotFound`` where it cannot be read, ``ModelUnsupported`` where it is no JSON object."""
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelNotFound(f"the model's config cannot be read ({error.strerror}): {file}") from error
    except ValueError as error:
        raise ModelUnsupported(f"the model's config is no JSON: {file}") from error
    if not isinstance(config, dict):
        raise ModelUnsupported(f"the model's config is no JSON object: {file}")
    return config
