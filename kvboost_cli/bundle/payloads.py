"""What stands in a bundle's frames: the manifest as JSON, documents as sealed JSON, records as safetensors.

A record is a safetensors file of uint8 tensors, [bytes] each: `key`, `header`, and `layer-00000` and so on. What is
read here may be anybody's, so every type and range is checked; the reason of a fault is raised as ValueError.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy
from safetensors import SafetensorError
from safetensors.numpy import load, save
from xxhash import xxh3_64_intdigest

from store import ChunkHeader, ChunkRecord, DamagedRecord, DocumentEntry, StoreIdentity, UnknownFormat

FORMAT_NAME = "kvboost-bundle"
MAX_NAME_CHARACTERS = 4096
MAX_SETTINGS = 64
_TYPES: Mapping[str, tuple[type, ...]] = {
    "name": (str,), "root": (str,), "content_hash": (str,), "kind": (str,), "recipe": (str,), "size_bytes": (int,),
    "mtime_ns": (int,), "num_tokens": (int,), "indexed_at": (float, int),
}  # fmt: skip
_LARGEST = 1 << 63
_UNSAFE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters, and those that turn or break a line: they could deceive whoever reads a name."""


def has_unsafe_characters(text: str) -> bool:
    """Whether printing it could move the cursor or turn the writing.

    >>> has_unsafe_characters("notes/\u00e9t\u00e9.md"), has_unsafe_characters("a\\x1b[2Jb")
    (False, True)
    """
    return _UNSAFE.search(text) is not None


def pack_manifest(identity: StoreIdentity) -> bytes:
    """Whose KV the bundle holds."""
    facts = {
        "format": FORMAT_NAME, "fingerprint": identity.fingerprint.hex(), "model": identity.model,
        "recipe": identity.recipe.hex(), "settings": identity.recipe_text,
    }  # fmt: skip
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")


def parse_manifest(payload: bytes) -> StoreIdentity:
    """The inverse of ``pack_manifest``."""
    try:
        facts = json.loads(payload)
    except (ValueError, RecursionError):
        raise ValueError("its manifest is not JSON") from None
    names = {"format", "fingerprint", "model", "recipe", "settings"}
    if not isinstance(facts, dict) or set(facts) != names or facts["format"] != FORMAT_NAME:
        raise ValueError("its manifest has other entries")
    digests = [_digest(facts[name]) for name in ("fingerprint", "recipe")]
    if not _is_name(facts["model"]) or not _are_settings(facts["settings"]):
        raise ValueError("its manifest has a name or a setting that is none")
    return StoreIdentity(digests[0], facts["model"], digests[1], facts["settings"])


def parse_entry(payload: bytes) -> DocumentEntry:
    """A document's entry, with fields of the right types and a name that can be shown."""
    try:
        entry = DocumentEntry.from_bytes(payload)
    except (DamagedRecord, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"a document's entry cannot be read, {type(error).__name__}") from None
    for name, types in _TYPES.items():
        value = getattr(entry, name)
        if not isinstance(value, types) or isinstance(value, bool):
            raise ValueError(f"a document's {name} has another type")
    if not _is_name(entry.name) or not (entry.root == "" or _is_name(entry.root)):
        raise ValueError("a document has a name that may not be shown")
    if not re.fullmatch("[0-9a-f]{1,64}", entry.content_hash) or not re.fullmatch("[a-z]{1,16}", entry.kind):
        raise ValueError("a document has a hash or a kind that is none")
    numbers = (entry.size_bytes, entry.num_tokens, abs(entry.mtime_ns))
    if not all(0 <= number < _LARGEST for number in numbers) or not 0 <= entry.indexed_at < _LARGEST:
        raise ValueError("a document has a number out of range")
    return replace(entry, indexed_at=float(entry.indexed_at))


def pack_record(record: ChunkRecord) -> bytes:
    """A record as safetensors."""
    parts = {"key": record.key, "header": record.header.pack()}
    layers = {_layer_name(number): layer for number, layer in enumerate(record.layers)}
    return save({name: numpy.frombuffer(data, dtype=numpy.uint8) for name, data in {**parts, **layers}.items()})


def unpack_record(payload: bytes) -> ChunkRecord:
    """The inverse of ``pack_record``; every layer has the size and the checksum that the header tells."""
    parts = _load(payload)
    if not {"key", "header"} <= parts.keys():
        raise ValueError("a record has no key or no header")
    try:
        header = ChunkHeader.unpack(parts["header"])
    except (DamagedRecord, UnknownFormat) as error:
        raise ValueError(str(error)) from None
    names = [_layer_name(number) for number in range(header.num_layers)]
    if parts.keys() != {"key", "header", *names}:
        raise ValueError("a record has other parts than its header tells")
    layers = tuple(parts[name] for name in names)
    record = ChunkRecord(bytes(parts["key"]), header, layers)
    if any(xxh3_64_intdigest(layer) != told for layer, told in zip(layers, header.layer_checksums, strict=True)):
        raise ValueError(f"a layer's checksum is another one: {record.key.hex()}")
    return record


def _load(payload: bytes) -> dict[str, memoryview]:
    try:
        arrays = load(payload)
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"a record is not safetensors, {type(error).__name__}") from None
    if any(array.dtype != numpy.uint8 or array.ndim != 1 for array in arrays.values()):
        raise ValueError("a record has a tensor that is not bytes")
    return {name: array.data for name, array in arrays.items()}


def _layer_name(number: int) -> str:
    return f"layer-{number:05d}"


def _digest(value: Any) -> bytes:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError("its manifest has a digest that is none")
    return bytes.fromhex(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARACTERS and not has_unsafe_characters(value)


def _are_settings(value: Any) -> bool:
    """Names to numbers or names, as people read them."""
    if not isinstance(value, dict) or len(value) > MAX_SETTINGS:
        return False
    return all(
        _is_name(name) and (_is_name(one) or (isinstance(one, (int, float)) and math.isfinite(one)))
        for name, one in value.items()
    )
