"""A model put together from its class and its weights, without the search and the reports of ``from_pretrained``.

It is done so where the files hold exactly the weights that the class wants, under the same names and in the same
shapes: that is told by the files' headers, before any weight is read. All other models go by ``from_pretrained``,
which knows how to rename, tie, dequantize and complain. Both give the same model, bit for bit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .importing import GenerationConfig, PreTrainedConfig, PreTrainedModel
from .weights import read_weights, weight_files

ROTARY = "rotary_emb"
GENERATION_CONFIG = "generation_config.json"


def build_skeleton(config: PreTrainedConfig, model: type[PreTrainedModel]) -> PreTrainedModel:
    """The model without weights: all its tensors have a shape and nothing else."""
    with torch.device("meta"):
        return model(config)


def fits(skeleton: PreTrainedModel, config: PreTrainedConfig, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether tensors of these ``shapes`` are the skeleton's weights, one for one.

    A tied weight is in the files once, under its source's name. Buffers that no file has can be made anew if they are
    the rotary module's.
    """
    tied = skeleton.all_tied_weights_keys
    wanted = {name: tuple(tensor.shape) for name, tensor in skeleton.state_dict().items() if name not in tied}
    made_anew = {name for name, _ in skeleton.named_buffers()} - wanted.keys()
    is_plain = getattr(config, "quantization_config", None) is None
    return is_plain and wanted == shapes and all(ROTARY in name.split(".") for name in made_anew)


def fill(skeleton: PreTrainedModel, model_dir: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The skeleton with its weights in ``dtype``."""
    skeleton.load_state_dict(read_weights(weight_files(model_dir), dtype), strict=False, assign=True)
    skeleton.tie_weights()
    backbone: Any = skeleton.base_model
    rotary: type[nn.Module] = type(backbone.get_submodule(ROTARY))
    setattr(backbone, ROTARY, rotary(config=skeleton.config))
    if (model_dir / GENERATION_CONFIG).is_file():
        skeleton.generation_config = GenerationConfig.from_pretrained(model_dir, local_files_only=True)
    return skeleton
