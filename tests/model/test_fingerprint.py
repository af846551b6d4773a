"""The identity of a model: what changes it, what does not, and the memory of weight digests."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_models import TinyModels

from kvboost_cli.model.errors import ModelNotFound
from kvboost_cli.model.fingerprint import fingerprint_model
from kvboost_cli.model.handle import ModelHandle


@pytest.fixture
def folder(tiny_models: TinyModels, tmp_path: Path) -> Path:
    """A model of its own to change."""
    return shutil.copytree(tiny_models.path("llama"), tmp_path / "model")


def digest(folder: Path, dtype: str = "float32", memory: Path | None = None) -> bytes:
    return fingerprint_model("some/model", folder, dtype, memory or folder.parent / "cache").digest


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def flip_byte(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


CHANGES: dict[str, Callable[[Path], None]] = {
    "a weight byte": lambda folder: flip_byte(folder / "model.safetensors", -5),
    "the rope base": lambda folder: edit_config(folder, rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
    "the rope scaling": lambda folder: edit_config(folder, rope_parameters={"rope_type": "linear", "factor": 2.0}),
    "a norm's epsilon": lambda folder: edit_config(folder, rms_norm_eps=1e-5),
    "the tokenizer": lambda folder: append(folder / "tokenizer.json", " "),
    "the tokenizer's config": lambda folder: append(folder / "tokenizer_config.json", " "),
    "the chat template": lambda folder: (folder / "chat_template.jinja").write_text("x") and None,
    "another shard": lambda folder: (folder / "more.safetensors").write_bytes(b"x") and None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_kv_changes_the_fingerprint(folder: Path, name: str) -> None:
    before = digest(folder)
    CHANGES[name](folder)
    assert digest(folder) != before


def test_the_dtype_changes_the_fingerprint(folder: Path) -> None:
    assert len({digest(folder, dtype) for dtype in ("float32", "bfloat16", "float16")}) == 3


def test_names_places_and_notes_do_not_change_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    before = fingerprint_model("one name", folder, "float32", tmp_path / "cache")
    moved = folder.rename(tmp_path / "elsewhere")
    edit_config(moved, _name_or_path="elsewhere", transformers_version="9", use_cache=False, dtype="bfloat16")
    (moved / "README.md").write_text("a note")
    after = fingerprint_model("another name", moved, "float32", tmp_path / "cache")
    assert after.digest == before.digest
    assert (before.name, after.name) == ("one name", "another name")
    assert (len(after.digest), after.dtype) == (32, "float32")


def test_order_and_space_in_the_config_do_not_change_the_fingerprint(folder: Path) -> None:
    before = digest(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(reversed(config.items())), indent=7))
    assert digest(folder) == before


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b'"x"', b"\xff\xfe\x00", b'{"a": 1}', None])
def test_a_damaged_memory_of_digests_only_costs_hashing(folder: Path, tmp_path: Path, content: bytes | None) -> None:
    memory = tmp_path / "memory"
    expected = digest(folder, memory=memory)
    path = memory / "weight-digests.json"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert digest(folder, memory=memory) == expected
    assert len(json.loads(path.read_text())) >= 1


def test_a_memory_entry_that_is_no_digest_is_not_believed(folder: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    expected = digest(folder, memory=memory)
    path = memory / "weight-digests.json"
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), 5)))
    assert digest(folder, memory=memory) == expected


def test_remembered_digests_are_used(folder: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    before = digest(folder, memory=memory)
    path = memory / "weight-digests.json"
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), "0" * 64)))
    assert digest(folder, memory=memory) != before


def test_a_memory_that_cannot_be_written_is_done_without(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert digest(folder, memory=tmp_path / "file") == digest(folder)


def test_weights_that_were_replaced_in_place_are_hashed_anew(folder: Path) -> None:
    before, path = digest(folder), folder / "model.safetensors"
    stat = path.stat()
    flip_byte(path, -1)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert digest(folder) != before


def test_weights_that_were_changed_behind_their_old_time_are_hashed_anew(folder: Path) -> None:
    path = folder / "model.safetensors"
    before, info = digest(folder), path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert path.stat().st_mtime_ns == info.st_mtime_ns
    assert digest(folder) != before


def test_a_directory_without_weights_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=f"no safetensors weights in: {tmp_path}$"):
        digest(tmp_path)


def test_a_handle_tells_the_head_size_without_loading(tiny_models: TinyModels, tmp_path: Path) -> None:
    sizes = {"llama": 16, "qwen3": 32}
    for name, head_dim in sizes.items():
        handle = ModelHandle(name, tiny_models.path(name), "cpu", "float32", tmp_path)
        assert handle.head_dim == head_dim
        assert handle.load_s == 0.0
        assert handle.loaded is handle.loaded
        assert handle.load_s > 0.0
