"""All that kvboost uses of transformers for an answer, imported without the rest of the library.

``import transformers`` reads 1,700 files for its table of architectures, and importing one model goes on to pictures,
sound, torch's compiler and training on several machines, which takes longer than torch. So the other modules of this
package take their names from here, where all that is put off (see ``standins``), and a model's classes come from the
file of its own architecture instead of by the ``Auto`` classes.

What this process has afterwards is transformers as it is on a torch that was built without distributed training.
Everything else is as ever: a later ``import transformers`` has all of it, with the same classes.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any, Unpack

from .standins import late_names, postponed

CLASS_PREFIXES = {"llama": "Llama", "mistral": "Mistral", "phi3": "Phi3", "qwen2": "Qwen2", "qwen3": "Qwen3"}
"""What the names of an architecture's classes begin with, by its type in config.json."""


def _unmarked(function: Callable[..., Any] | None = None, *_args: object, **_options: object) -> Any:
    """In place of decorators that tell torch's compiler to leave a function alone: nothing here is compiled by it."""
    return function if callable(function) else _unmarked


COMPILER_MARKS = ("allow_in_graph", "assume_constant_result", "disable")

POSTPONED: dict[str, Mapping[str, object]] = {
    "transformers": {"__version__": version("transformers")},
    "transformers.models": {},
    "transformers.processing_utils": {"Unpack": Unpack},
    "torch._dynamo": dict.fromkeys(COMPILER_MARKS, _unmarked),
    **late_names(
        {
            "torch._dynamo._trace_wrapped_higher_order_op": ["TransformGetItemToIndex"],
            "accelerate": ["PartialState", "dispatch_model"],
            "accelerate.hooks": ["AlignDevicesHook", "add_hook_to_module"],
            "accelerate.utils": [
                "extract_model_from_parallel", "get_balanced_memory", "get_max_memory", "infer_auto_device_map",
                "reduce",
            ],
            "accelerate.utils.modeling": ["clean_device_map", "get_max_layer_size"],
        }
    ),
}  # fmt: skip
"""Modules that models' files import, a package before its parts, and the names in them that these files want."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without what is postponed, and without garbage collections: modules are there to stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        import torch  # noqa: F401  whole, before anything stands in for a part of it

        with postponed(POSTPONED):
            yield
    finally:
        gc.freeze()  # else the next collection goes through all of it
        if was_enabled:
            gc.enable()


def _leave_out_distributed() -> None:
    """Have transformers find, once and for all, that torch cannot train on several machines."""
    import torch.distributed
    from transformers.utils.import_utils import is_torch_distributed_available

    names = vars(torch.distributed)
    real = names["is_available"]
    names["is_available"] = lambda: False
    try:
        is_torch_distributed_available()  # remembers what it found
    finally:
        names["is_available"] = real


with quick_imports():
    _leave_out_distributed()
    from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache
    from transformers.configuration_utils import PreTrainedConfig
    from transformers.generation.configuration_utils import GenerationConfig
    from transformers.initialization import no_init_weights
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface, PreTrainedModel
    from transformers.utils import logging

__all__ = [
    "AttentionInterface",
    "AttentionMaskInterface",
    "Cache",
    "CacheLayerMixin",
    "DynamicCache",
    "GenerationConfig",
    "PreTrainedConfig",
    "PreTrainedModel",
    "config_class",
    "logging",
    "model_class",
    "no_init_weights",
]


def config_class(model_type: str) -> type[PreTrainedConfig]:
    """The class that reads an architecture's config.json."""
    found: type[PreTrainedConfig] = _class(model_type, "configuration", "Config")
    return found


def model_class(model_type: str) -> type[PreTrainedModel]:
    """An architecture's causal language model."""
    found: type[PreTrainedModel] = _class(model_type, "modeling", "ForCausalLM")
    return found


def _class(model_type: str, kind: str, suffix: str) -> Any:
    with quick_imports():
        module = import_module(f"transformers.models.{model_type}.{kind}_{model_type}")
    return getattr(module, CLASS_PREFIXES[model_type] + suffix)
