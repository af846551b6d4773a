"""Load a model for stitching: device, dtype, weights, sizes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from . import attention, lean
from .architecture import Geometry, read_geometry, require_supported
from .errors import DeviceTooSmall, DeviceUnavailable, ModelUnsupported
from .importing import PreTrainedConfig, PreTrainedModel, config_class, logging, model_class
from .memory import OVERHEAD_BYTES, free_bytes, weight_bytes
from .weights import stored_shapes, weight_files

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in memory, ready for passes over chosen tokens."""

    module: PreTrainedModel
    geometry: Geometry
    device: torch.device
    dtype: torch.dtype
    end_tokens: frozenset[int]

    @property
    def backbone(self) -> nn.Module:
        """The model without its output head."""
        backbone: nn.Module = self.module.base_model
        return backbone

    @property
    def layers(self) -> nn.ModuleList:
        """The decoder layers, bottom first."""
        layers = self.backbone.get_submodule("layers")
        assert isinstance(layers, nn.ModuleList), "a supported architecture keeps its layers in `layers`"
        return layers

    def rotary_angles(self, num_positions: int) -> tuple[Tensor, Tensor]:
        """cos and sin of positions ``0 .. num_positions - 1``: fp32 [num_positions, rotary_dim / 2].

        They come from the model's own rotary module, so every static scaling is honoured and longrope picks its
        factors for a prompt of this length. The module's attention scaling is divided out: a key that was
        captured after rotation carries it already.
        """
        rotary: Any = self.backbone.get_submodule("rotary_emb")
        positions = torch.arange(num_positions, device=self.device)[None]
        with torch.inference_mode():
            cos, sin = rotary(torch.empty(0, device=self.device, dtype=torch.float32), positions)
        half, scaling = cos.shape[-1] // 2, rotary.attention_scaling
        return cos[0, :, :half] / scaling, sin[0, :, :half] / scaling

    def rope_variant(self, num_positions: int) -> int:
        """Which set of rotary factors a prompt of this length uses: longrope has two, everything else one (0)."""
        rope = getattr(self.module.config, "rope_parameters", None) or {}
        if rope.get("rope_type") != "longrope":
            return 0
        return int(num_positions > rope["original_max_position_embeddings"])

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked, so that a clock can be read."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def choose_device(wanted: str) -> torch.device:
    """``auto`` takes CUDA, then MPS, then the CPU; a device that is not there raises ``DeviceUnavailable``."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name, there in available.items() if there))
    if not available.get(wanted, False):
        raise DeviceUnavailable(f"this machine or this build of torch has no such device: {wanted}")
    return torch.device(wanted)


def choose_dtype(wanted: str, device: torch.device) -> str:
    """``auto`` takes bfloat16 where the device has it, else float16 on GPUs and float32 on CPUs."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
    if device.type == "mps":
        return "bfloat16"
    capabilities = torch.cpu.get_capabilities()
    has_bf16 = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return "bfloat16" if has_bf16 else "float32"


def load_model(model_dir: Path, device: torch.device, dtype_name: str) -> LoadedModel:
    """Read config and safetensors weights from a directory.

    Raises ``ModelUnsupported`` for architectures that cannot be stitched and for files that cannot be read, and
    ``DeviceTooSmall`` before anything is read if the weights do not fit the device.
    """
    _silence_transformers()
    dtype = DTYPES[dtype_name]
    with _told_as_unsupported(model_dir):
        config = _read_config(model_dir)
        geometry = read_geometry(config.to_dict())
        _require_memory(model_dir, device, dtype.itemsize)
        module = _read_module(model_dir, config, dtype)
    nn.Module.to(module.requires_grad_(False), device)
    module.train(False)
    module.set_attn_implementation(attention.NAME)
    module.get_output_embeddings().register_forward_pre_hook(_compact_input)
    return LoadedModel(module, geometry, device, dtype, _end_tokens(model_dir, module))


@contextmanager
def _told_as_unsupported(model_dir: Path) -> Iterator[None]:
    """What transformers and safetensors raise for files that they cannot read, as one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelUnsupported(f"the model cannot be loaded ({reason}): {model_dir}") from error


def _read_config(model_dir: Path) -> PreTrainedConfig:
    facts, _rest = PreTrainedConfig.get_config_dict(model_dir, local_files_only=True)
    require_supported(facts)
    return config_class(facts["model_type"]).from_pretrained(model_dir, local_files_only=True)


def _read_module(model_dir: Path, config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """The model on the CPU: put together here if its files are as its class wants them, else by transformers."""
    causal_model = model_class(config.model_type)
    config.dtype = dtype
    skeleton = lean.build_skeleton(config, causal_model)
    if lean.fits(skeleton, config, stored_shapes(weight_files(model_dir))):
        return lean.fill(skeleton, model_dir, dtype)
    loaded: Any = causal_model.from_pretrained(
        model_dir,
        config=config,
        dtype=dtype,
        local_files_only=True,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    module: PreTrainedModel = loaded[0]
    _require_all_weights(loaded[1], model_dir)
    return module


def _require_memory(model_dir: Path, device: torch.device, itemsize: int) -> None:
    free = free_bytes(device)
    if free is None:
        return
    needed = weight_bytes(model_dir, itemsize) + OVERHEAD_BYTES
    if needed > free:
        raise DeviceTooSmall(f"the model's weights need {needed:,} bytes on {device}, which has free: {free:,}")


def _require_all_weights(info: Mapping[str, Any], model_dir: Path) -> None:
    """transformers fills in missing weights at random and only warns."""
    absent = sorted([*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])])
    if absent:
        raise ModelUnsupported(f"the model's weights lack {absent[0]} and {len(absent) - 1} more: {model_dir}")


def _compact_input(_head: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The last positions as a tensor of their own: given a slice of all, torch copies the head's weights each time."""
    return (inputs[0].clone(memory_format=torch.contiguous_format), *inputs[1:])


def _silence_transformers() -> None:
    """Its warnings and progress bars are not for kvboost's users; errors still arrive as exceptions."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _end_tokens(model_dir: Path, module: PreTrainedModel) -> frozenset[int]:
    """Ids that end an answer: those of the generation config, and the config's own."""
    found: set[int] = set()
    sources = [module.config.eos_token_id]
    path = model_dir / "generation_config.json"
    if path.is_file():
        sources.append(json.loads(path.read_text(encoding="utf-8")).get("eos_token_id"))
    for source in sources:
        found.update([source] if isinstance(source, int) else source or [])
    return frozenset(found)
