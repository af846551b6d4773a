"""Loading weights: bit for bit the model that transformers' own ``from_pretrained`` makes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import ARCHITECTURES, CONFIGS, CPU, TinyModels, make_model, save_tokenizer
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from kvboost_cli.model import lean
from kvboost_cli.model.load import load_model
from kvboost_cli.model.weights import stored_shapes, weight_files

IDS = torch.arange(3, 43)[None]
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def plain(folder: Path, dtype: str) -> PreTrainedModel:
    module: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    return module.train(False)


def assert_same_model(folder: Path, dtype: str = "float32") -> PreTrainedModel:
    """Ours and transformers' have the same tensors, buffers and logits; returns ours."""
    ours, theirs = load_model(folder, CPU, dtype).module, plain(folder, dtype)
    for kind in ("named_parameters", "named_buffers"):
        named, expected = dict(getattr(ours, kind)()), dict(getattr(theirs, kind)())
        assert named.keys() == expected.keys()
        assert [name for name in named if not same_bits(named[name], expected[name])] == []
    assert ours.dtype == theirs.dtype == ours.config.dtype == theirs.config.dtype
    assert ours.generation_config.to_dict() == theirs.generation_config.to_dict()
    ours.set_attn_implementation("sdpa")
    with torch.inference_mode():
        assert same_bits(ours(input_ids=IDS).logits, theirs(input_ids=IDS).logits)
    return ours


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def is_put_together(folder: Path, name: str) -> bool:
    """Whether the files are such that kvboost puts the model together itself."""
    config = CONFIGS[name]()
    skeleton = lean.build_skeleton(config, type(make_model(config)))
    return lean.fits(skeleton, config, stored_shapes(weight_files(folder)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_architecture_is_put_together_as_transformers_does(tiny_models: TinyModels, name: str, dtype: str) -> None:
    assert is_put_together(tiny_models.path(name), name)
    assert_same_model(tiny_models.path(name), dtype)


def test_weights_in_bf16_are_widened_exactly(tmp_path: Path) -> None:
    make_model(CONFIGS["qwen2"]()).to(torch.bfloat16).save_pretrained(tmp_path)
    assert is_put_together(tmp_path, "qwen2")
    assert_same_model(tmp_path, "float32")


def test_weights_in_several_files(tmp_path: Path) -> None:
    make_model(CONFIGS["llama"]()).save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(weight_files(tmp_path)) > 2
    assert is_put_together(tmp_path, "llama")
    assert_same_model(tmp_path)


def test_a_head_that_is_the_embedding_is_held_once(tmp_path: Path) -> None:
    save_tied(tmp_path)
    assert HEAD not in stored_shapes(weight_files(tmp_path))
    module = assert_same_model(tmp_path)
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight


@pytest.mark.filterwarnings("ignore")
def test_a_head_of_its_own_where_the_config_says_tied_is_left_to_transformers(tmp_path: Path) -> None:
    save_tied(tmp_path)
    change_weights(tmp_path, lambda weights: weights | {HEAD: weights[EMBEDDING] * 2})
    module = assert_same_model(tmp_path)
    assert not torch.equal(module.get_output_embeddings().weight, module.get_input_embeddings().weight)


def test_a_tensor_that_no_model_wants_is_left_to_transformers(tiny_models: TinyModels, tmp_path: Path) -> None:
    """Old Llama files have the frequencies of every layer."""
    folder = Path(shutil.copytree(tiny_models.path("llama"), tmp_path / "old"))
    change_weights(folder, lambda weights: weights | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)})
    assert not is_put_together(folder, "llama")
    assert_same_model(folder)


def test_a_generation_config_comes_along(tiny_models: TinyModels, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_models.path("llama"), tmp_path / "generating"))
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 5], "repetition_penalty": 1.25}')
    assert assert_same_model(folder).generation_config.repetition_penalty == 1.25
    assert load_model(folder, CPU, "float32").end_tokens == {2, 5}


def test_a_loaded_model_does_not_change_with_its_file(tiny_models: TinyModels, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_models.path("llama"), tmp_path / "fleeting"))
    module = load_model(folder, CPU, "float32").module
    expected = make_model(CONFIGS["llama"]()).state_dict()
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(bytes(file.seek(0, 2) - file.seek(0)))
    assert [name for name, weight in module.state_dict().items() if not same_bits(weight, expected[name])] == []


@pytest.mark.model
def test_the_default_model_is_the_one_that_transformers_loads(default_model_dir: Path) -> None:
    assert_same_model(default_model_dir, "bfloat16")


def save_tied(folder: Path) -> None:
    config = LlamaConfig(**CONFIGS["llama"]().to_dict() | {"tie_word_embeddings": True})
    make_model(config).save_pretrained(folder)
    save_tokenizer(folder)


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
