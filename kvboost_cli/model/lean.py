"""A model put together from its class and its weights, without the search and the reports of ``from_pretrained``.

It is done so where the files hold exactly the weights that the class wants, under the same names and in the same
shapes: that is told by the files' headers, before any weight is read. All other models go by ``from_pretrained``,
which knows how to rename, tie, dequantize and complain. Both give the same model, bit for bit.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from .importing import GenerationConfig, PreTrainedConfig, PreTrainedModel, no_init_weights
from .weights import read_weights, weight_files

GENERATION_CONFIG = "generation_config.json"


def build_skeleton(config: PreTrainedConfig, model: type[PreTrainedModel]) -> PreTrainedModel:
    """The model with weights that nobody has written to, and that so take no memory yet.

    torch's meta device would do as well, but computing the rotary frequencies there imports torch's compiler.
    """
    with no_init_weights():
        return model(config)


def fits(skeleton: PreTrainedModel, config: PreTrainedConfig, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether tensors of these ``shapes`` are the skeleton's weights, one for one; a tied one is there once."""
    tied = skeleton.all_tied_weights_keys
    wanted = {name: tuple(tensor.shape) for name, tensor in skeleton.state_dict().items() if name not in tied}
    return wanted == shapes and getattr(config, "quantization_config", None) is None


def fill(skeleton: PreTrainedModel, model_dir: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The skeleton with its weights in ``dtype``."""
    skeleton.load_state_dict(read_weights(weight_files(model_dir), dtype), strict=False, assign=True)
    skeleton.tie_weights()
    if (model_dir / GENERATION_CONFIG).is_file():
        skeleton.generation_config = GenerationConfig.from_pretrained(model_dir, local_files_only=True)
    return skeleton
