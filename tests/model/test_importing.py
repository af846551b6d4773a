"""transformers without what no answer needs: what is left out, and that it is there for whoever wants it."""

import json
import subprocess
import sys
from typing import Any

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from kvboost_cli.model.architecture import SUPPORTED_TYPES
from kvboost_cli.model.importing import CLASS_PREFIXES, config_class, model_class

PUT_OFF = (
    "transformers", "transformers.models", "transformers.processing_utils",
    "transformers.models.auto.tokenization_auto",
    "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp", "accelerate", "sympy",
)  # fmt: skip

SCRIPT = f"""
import gc, json, sys
from kvboost_cli.model.importing import PreTrainedModel, config_class, model_class
classes = {{t: model_class(t) for t in {sorted(SUPPORTED_TYPES)}}}
before = [name for name in {PUT_OFF} if name in sys.modules]

import torch, transformers
from transformers import masking_utils, modeling_utils
from transformers.generation import utils as generation
same = all(getattr(transformers, c.__name__) is c for c in classes.values())
auto = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(
    vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1))
with masking_utils.TransformGetItemToIndex():
    pass
import accelerate.hooks, torch._dynamo
hook = accelerate.hooks.AlignDevicesHook()
print(json.dumps({{
    "before": before,
    "same classes": same,
    "auto": type(auto) is classes["llama"],
    "processors": transformers.ProcessorMixin.__module__,
    "hook": [isinstance(hook, generation.AlignDevicesHook), isinstance(1, generation.AlignDevicesHook)],
    "compiler": torch._dynamo.__file__.endswith("__init__.py"),
    "distributed": torch.distributed.is_available(),
    "collecting": gc.isenabled(),
}}))
"""


@pytest.fixture(scope="module")
def told() -> Any:
    """What a process of its own found."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_architecture_brings_in_what_was_put_off(told: Any) -> None:
    """If this fails with a new transformers or torch, kvboost starts more slowly: see ``POSTPONED``."""
    assert told["before"] == []


def test_all_of_transformers_is_there_afterwards(told: Any) -> None:
    assert (told["same classes"], told["auto"]) == (True, True)
    assert told["processors"] == "transformers.processing_utils"
    assert told["hook"] == [True, False]
    assert (told["compiler"], told["distributed"], told["collecting"]) == (True, True, True)


def test_the_classes_are_those_that_the_auto_classes_choose() -> None:
    assert CLASS_PREFIXES.keys() == SUPPORTED_TYPES
    for model_type in SUPPORTED_TYPES:
        assert config_class(model_type).__name__ == CONFIG_MAPPING_NAMES[model_type]
        assert model_class(model_type).__name__ == MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]
