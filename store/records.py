"""What the store keeps, as plain frozen values: chunks, documents, asks, and who the store is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Self

from xxhash import xxh3_64_intdigest

from .budget import Budget
from .errors import DamagedRecord
from .header import ChunkHeader
from .keys import KEY_BYTES
from .sealed import seal, unseal

__all__ = [
    "AskEntry", "ChunkHeader", "ChunkRecord", "DocumentEntry", "StoreIdentity", "StoreStats", "build_record",
]  # fmt: skip


@dataclass(frozen=True)
class ChunkRecord:
    """A chunk to be stored: `key` has 32 bytes, `layers` one buffer of bytes per layer.

    Raises ValueError if the layers do not have the sizes that the header tells.
    """

    key: bytes
    header: ChunkHeader
    layers: Sequence[bytes | memoryview]

    def __post_init__(self) -> None:
        _require_key(self.key)
        sizes = tuple(memoryview(layer).nbytes for layer in self.layers)
        if sizes != self.header.layer_bytes:
            raise ValueError(f"the layers do not have the sizes that the header tells: {sizes}")


def build_record(
    key: bytes,
    layers: Sequence[bytes | memoryview],
    *,
    fingerprint: bytes,
    recipe: bytes,
    dtype: str,
    bits: int,
    group: int,
    kv_heads: int,
    key_dim: int,
    value_dim: int,
    token_ids: Sequence[int],
    positional: bool = False,
    rotated: bool = False,
    start: int = 0,
    kept_indices: bytes = b"",
) -> ChunkRecord:
    """A record whose counts, sizes and checksums are those of `layers` and `token_ids`.

    `layers` are buffers of bytes (cast a memoryview with `.cast("B")`); they are not copied.
    Raises ValueError if the fields contradict each other.
    """
    header = ChunkHeader(
        fingerprint=fingerprint, recipe=recipe, dtype=dtype, bits=bits, group=group, num_layers=len(layers),
        kv_heads=kv_heads, num_tokens=len(token_ids), key_dim=key_dim, value_dim=value_dim,
        token_ids=tuple(token_ids), layer_bytes=tuple(memoryview(layer).nbytes for layer in layers),
        layer_checksums=tuple(xxh3_64_intdigest(layer) for layer in layers), positional=positional,
        rotated=rotated, start=start, kept_indices=kept_indices,
    )  # fmt: skip
    return ChunkRecord(key, header, tuple(layers))


_KEY_LISTS = ("chunk_keys", "position_keys")


@dataclass(frozen=True)
class DocumentEntry:
    """An indexed document. `name` is an absolute path or such as "stdin"; it may hold surrogate escapes.

    `recipe` is hexadecimal. `chunk_keys` are content keys in document order; `position_keys` are positional keys of
    its first chunks, in order, as far as it has any. `indexed_at` is Unix time.
    """

    name: str
    root: str
    size_bytes: int
    mtime_ns: int
    content_hash: str
    kind: str
    recipe: str
    num_tokens: int
    chunk_keys: tuple[bytes, ...]
    indexed_at: float
    position_keys: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError(f"a document has a name that is not empty, not {self.name!r}")
        for key in (*self.chunk_keys, *self.position_keys):
            _require_key(key)

    def to_bytes(self) -> bytes:
        """Sealed JSON."""
        keys = {name: [key.hex() for key in getattr(self, name)] for name in _KEY_LISTS}
        return seal({**asdict(self), **keys})

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Raises DamagedRecord."""
        values = _unseal_fields(cls, data)
        keys = {name: tuple(bytes.fromhex(key) for key in values[name]) for name in _KEY_LISTS}
        return cls(**{**values, **keys})


@dataclass(frozen=True)
class AskEntry:
    """What one ask did. `at` is Unix time; tokens and documents are counted as in the ask's report.

    `preamble` is the positional key of what stood before the documents, hexadecimal; empty if that is not known, or
    if a document between others was forgotten: the order cannot come again then. `excerpts` has for each document the
    places of its chunks in the prompt, None for a whole one.
    """

    at: float
    model: str
    strategy: str
    prompt_tokens: int
    exact: int
    reused: int
    repaired: int
    prefilled: int
    generated: int
    ttft_s: float
    documents_exact: int
    documents_content: int
    documents_miss: int
    speedup: float | None
    documents: tuple[str, ...]
    preamble: str = ""
    excerpts: tuple[tuple[int, ...] | None, ...] = ()

    def without(self, names: Collection[str]) -> Self:
        """The same ask, which no longer names these documents."""
        kept = tuple(name for name in self.documents if name not in names)
        return replace(self, documents=kept, preamble="", excerpts=())

    def to_bytes(self) -> bytes:
        """Sealed JSON."""
        return seal(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Raises DamagedRecord. Asks from before orders were kept have no preamble and no excerpts."""
        values = _unseal_fields(cls, data, {"preamble": "", "excerpts": ()})
        excerpts = tuple(None if places is None else tuple(places) for places in values["excerpts"])
        return cls(**{**values, "documents": tuple(values["documents"]), "excerpts": excerpts})


@dataclass(frozen=True)
class StoreIdentity:
    """Whose keys and values a store holds: 32-byte hashes, and the same facts for people.

    `recipe_text` holds the settings behind `recipe`, such as {"bits": 8, "group": 64, "contexts": 2}.
    """

    fingerprint: bytes
    model: str
    recipe: bytes
    recipe_text: dict[str, int | str]

    def __str__(self) -> str:
        return f"{self.model} ({self.fingerprint.hex()[:12]})"

    def recipe_differences(self, wanted: Self) -> tuple[tuple[str, object, object], ...]:
        """(setting, value here, value in `wanted`) for each that differs; the hashes if no setting does."""
        here, there = self.recipe_text, wanted.recipe_text
        names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
        if names:
            return tuple((name, here.get(name), there.get(name)) for name in names)
        return (("recipe", self.recipe.hex()[:12], wanted.recipe.hex()[:12]),)

    def to_bytes(self) -> bytes:
        """Sealed JSON."""
        return seal({**asdict(self), "fingerprint": self.fingerprint.hex(), "recipe": self.recipe.hex()})

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Raises DamagedRecord."""
        values = _unseal_fields(cls, data)
        hashes = {name: bytes.fromhex(values[name]) for name in ("fingerprint", "recipe")}
        return cls(**{**values, **hashes})


@dataclass(frozen=True)
class StoreStats:
    """What a store holds and what it earned.

    `file_bytes` is the size of the data file, `live_bytes` what of it is in use, positional records included, and
    `disk_bytes` that of all files; `num_chunks`, `num_tokens` and `bytes_per_token` (layers and headers per token,
    0.0 without any) are those of content chunks that are stored, `num_evicted` are those that gave way to others. The
    `documents_*` counts are sums over all asks; the percentiles (nearest rank) cover the latest 1,000 asks, and are
    None without any.
    """

    path: str
    format: int
    file_bytes: int
    live_bytes: int
    disk_bytes: int
    budget: Budget
    num_evicted: int
    num_pinned: int
    num_documents: int
    num_chunks: int
    num_tokens: int
    bytes_per_token: float
    identity: StoreIdentity | None
    num_asks: int
    documents_exact: int
    documents_content: int
    documents_miss: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None


def _require_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a chunk's key has {KEY_BYTES} bytes, not {len(key)}")


def _unseal_fields(
    cls: type, data: bytes | memoryview, defaults: Mapping[str, object] = MappingProxyType({})
) -> dict[str, Any]:
    """The values of all fields; those with a default may be absent."""
    values = unseal(data)
    names = {field.name for field in fields(cls)}
    if not isinstance(values, dict) or set(values) | set(defaults) != names:
        raise DamagedRecord(f"its fields are not those of a {cls.__name__}")
    return {**defaults, **values}
