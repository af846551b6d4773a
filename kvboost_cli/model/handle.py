"""A model that is named now and loaded when first needed: codec and fingerprint cost no torch."""

from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .architecture import Geometry, exact_positions, read_geometry, require_supported
from .codec import TextCodec
from .config_file import read_config_file
from .errors import ModelUnsupported
from .fingerprint import ModelFingerprint, fingerprint_model

if TYPE_CHECKING:
    import torch

    from .load import LoadedModel


class ModelHandle:
    """One model directory with the device and dtype to use; ``auto`` lets the machine decide."""

    def __init__(self, name: str, path: Path, device: str, dtype: str, cache_dir: Path) -> None:
        self.name, self.path = name, path
        self._wanted_device, self._wanted_dtype, self._cache_dir = device, dtype, cache_dir
        self.import_s = 0.0
        self.load_s = 0.0

    @cached_property
    def codec(self) -> TextCodec:
        """The model's tokenizer."""
        return TextCodec(self.path)

    @cached_property
    def head_dim(self) -> int:
        """Size of one key or value head, from the config file alone."""
        try:
            return int(
                self._config.get("head_dim") or self._config["hidden_size"] // self._config["num_attention_heads"]
            )
        except (KeyError, TypeError) as error:
            raise ModelUnsupported(f"the model's config does not tell its head size: {self.path}") from error

    @cached_property
    def exact_positions(self) -> int:
        """How long a prompt's exact KV may be kept, in tokens, from the config file alone."""
        try:
            return exact_positions(self._config)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelUnsupported(f"the model's config does not tell its context: {self.path}") from error

    @cached_property
    def geometry(self) -> Geometry:
        """Sizes of the model's KV, from the config file alone."""
        try:
            return read_geometry(self._config)
        except (KeyError, TypeError) as error:
            raise ModelUnsupported(f"the model's config does not tell its sizes: {self.path}") from error

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest token id, from the config file alone."""
        try:
            return int(self._config["vocab_size"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelUnsupported(f"the model's config does not tell its vocabulary: {self.path}") from error

    def require_supported(self) -> None:
        """Raise ``ModelUnsupported`` unless the model can be stitched; its weights are not read."""
        require_supported(self._config)

    @cached_property
    def _config(self) -> dict[str, Any]:
        return read_config_file(self.path / "config.json")

    @cached_property
    def device(self) -> "torch.device":
        """The device to compute on."""
        self.import_torch()
        from .load import choose_device

        return choose_device(self._wanted_device)

    @cached_property
    def dtype(self) -> str:
        """Name of the dtype to compute in."""
        if self._wanted_dtype != "auto":
            return self._wanted_dtype
        device = self.device
        from .load import choose_dtype

        return choose_dtype("auto", device)

    @cached_property
    def fingerprint(self) -> ModelFingerprint:
        """The model's identity in this dtype."""
        return fingerprint_model(self.name, self.path, self.dtype, self._cache_dir)

    @cached_property
    def loaded(self) -> "LoadedModel":
        """The model in memory, loaded once; ``import_s`` and ``load_s`` tell in seconds what that took.

        The second holds the tokenizer, unless it was needed before.
        """
        device, dtype = self.device, self.dtype
        from .load import load_model

        started = perf_counter()
        _ = self.codec
        model = load_model(self.path, device, dtype)
        self.load_s = perf_counter() - started
        return model

    def import_torch(self) -> None:
        """Import torch and this model's part of transformers, which takes seconds; ``import_s`` tells how many."""
        started = perf_counter()
        from . import load  # noqa: F401
        from .importing import CLASS_PREFIXES, model_class

        if (model_type := self._config.get("model_type")) in CLASS_PREFIXES:
            model_class(model_type)
        self.import_s += perf_counter() - started
