"""What a model is, as 32 bytes: the identity that its KV is kept under.

Two models share a fingerprint only if they would compute the same KV: weights, config (with its rope parameters),
tokenizer and dtype all count, the name does not. Hashing weights takes a second per few gigabytes, so digests of
files are remembered by path, size, inode and both times of change.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from .errors import ModelNotFound

IDENTITY_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
HEX_DIGEST = re.compile("[0-9a-f]{64}")
CONFIG_NOISE = frozenset({"_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache"})


@dataclass(frozen=True)
class ModelFingerprint:
    """A model's name, for people, and digest, for keys."""

    name: str
    digest: bytes
    dtype: str


def fingerprint_model(name: str, model_dir: Path, dtype: str, cache_dir: Path) -> ModelFingerprint:
    """Identity of the model in ``model_dir`` when computing in ``dtype``; needs no torch.

    Raises ``ModelNotFound`` when the directory has no safetensors weights.
    """
    weights = sorted(model_dir.glob("*.safetensors"))
    if not weights:
        raise ModelNotFound(f"there are no safetensors weights in: {model_dir}")
    parts = {path.name: digest for path, digest in _file_digests(weights, cache_dir).items()}
    for file_name in IDENTITY_FILES:
        path = model_dir / file_name
        if path.is_file():
            parts[file_name] = blake3(_canonical(path)).hexdigest()
    facts = {"format": 1, "dtype": dtype, "files": parts}
    return ModelFingerprint(name, blake3(json.dumps(facts, sort_keys=True).encode()).digest(), dtype)


def _canonical(path: Path) -> bytes:
    """A config without the entries that do not change the KV; every other file as it is."""
    content = path.read_bytes()
    if path.name != "config.json":
        return content
    config = {key: value for key, value in json.loads(content).items() if key not in CONFIG_NOISE}
    return json.dumps(config, sort_keys=True).encode()


def _file_digests(paths: list[Path], cache_dir: Path) -> Mapping[Path, str]:
    """Digest of each file, from the remembered ones where the file has not changed."""
    memory_path = cache_dir / "weight-digests.json"
    remembered = _read_memory(memory_path)
    digests = {}
    for path in paths:
        mark = _stat_mark(path)
        if mark not in remembered:
            remembered[mark] = blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()
            _write_memory(memory_path, remembered)
        digests[path] = remembered[mark]
    return digests


def _stat_mark(path: Path) -> str:
    real = path.resolve()
    stat = real.stat()
    return f"{real}|{stat.st_size}|{stat.st_ino}|{stat.st_mtime_ns}|{stat.st_ctime_ns}"


def _read_memory(path: Path) -> dict[str, str]:
    """Remembered digests; an unreadable memory only costs hashing again."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        mark: digest for mark, digest in content.items() if isinstance(digest, str) and HEX_DIGEST.fullmatch(digest)
    }


def _write_memory(path: Path, digests: Mapping[str, str]) -> None:
    """Remember the digests if that can be done: without it the weights are only hashed again."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(digests), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
