"""How much fits: the memory of a KV cache, and what documents take in the store. Sizes alone, no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..model.architecture import Geometry, read_geometry
from ..model.cache_shape import CacheShape, KVLayer, read_cache_shape
from ..model.errors import ModelUnsupported
from .cost import RecordSizes
from .errors import SettingRefused
from .outlook import Collection
from .recipe import make_recipe

STORE_BITS = (16, 8, 4)
HALF = "bfloat16"
"""What models are kept in, nearly all: two bytes a number at 16 bits."""


@dataclass(frozen=True)
class Subject:
    """What is planned for; ``geometry`` is None where kvboost cannot stitch the model, for the ``reason``."""

    name: str | None
    shape: CacheShape
    geometry: Geometry | None
    reason: str | None = None


@dataclass(frozen=True)
class CacheSize:
    """The cache of one prompt at ``bits``; ``tokens_in_budget`` is None without a budget or where nothing limits it."""

    bits: int
    bytes_per_token: float
    bytes: int
    tokens_in_budget: int | None


@dataclass(frozen=True)
class StoreSize:
    """What a document's token takes in the store's file at ``bits``, and what fits; None without a budget."""

    bits: int
    bytes_per_token: float
    tokens_in_budget: int | None
    documents_in_budget: int | None


@dataclass(frozen=True)
class Capacity:
    """A plan. ``store`` is empty where the model's chunks cannot be stored."""

    subject: Subject
    context: int
    exact: bool
    budget: int | None
    caches: tuple[CacheSize, ...]
    store: tuple[StoreSize, ...]
    collection: Collection | None

    def to_json(self) -> dict[str, object]:
        """The object of ``plan --json``."""
        shape = self.subject.shape
        return {
            "model": self.subject.name,
            "layers": {"cached": len(shape.layers), "windowed": shape.num_windowed, "stateful": shape.num_stateful},
            "context": self.context,
            "budget": self.budget,
            "cache": [asdict(size) for size in self.caches],
            "store": {
                "exact": self.exact,
                "refused": self.subject.reason,
                "sizes": [asdict(size) for size in self.store],
            },
            "collection": None if self.collection is None else self.collection.to_json(),
        }


def read_subject(name: str, config: Mapping[str, Any]) -> Subject:
    """A model by its config; raises ``ModelUnsupported`` only if not even its cache's size is known."""
    shape = read_cache_shape(config)
    try:
        return _subject(name, shape, read_geometry(config))
    except ModelUnsupported as error:
        return Subject(name, shape, None, str(error))


def subject_of_sizes(layers: int, kv_heads: int, head_dim: int) -> Subject:
    """A model that is not here: every layer keeps every token."""
    shape = CacheShape((KVLayer(kv_heads, head_dim, head_dim),) * layers)
    return _subject(None, shape, Geometry(layers, kv_heads, kv_heads, head_dim, head_dim, max_positions=0))


def _subject(name: str | None, shape: CacheShape, geometry: Geometry) -> Subject:
    try:
        make_recipe(None, None, geometry.key_dim)
    except SettingRefused as error:
        return Subject(name, shape, None, str(error))
    return Subject(name, shape, geometry)


def plan_capacity(
    subject: Subject,
    *,
    context: int,
    all_bits: Sequence[int],
    exact: bool,
    budget: int | None,
    collection: Collection | None,
) -> Capacity:
    """Sizes at each number of bits; at those that the store knows, also there."""
    caches = tuple(_size_cache(subject.shape, context, bits, budget) for bits in all_bits)
    tokens = None if collection is None else collection.document_tokens
    geometry = subject.geometry
    known = [bits for bits in all_bits if bits in STORE_BITS and geometry is not None]
    store = tuple(_size_store(geometry, bits, exact, budget, tokens) for bits in known if geometry is not None)
    return Capacity(subject, context, exact, budget, caches, store, collection)


def _size_cache(shape: CacheShape, context: int, bits: int, budget: int | None) -> CacheSize:
    num_bytes = shape.num_bytes(context, bits)
    fitting = None if budget is None else shape.tokens_within(budget, bits)
    return CacheSize(bits, num_bytes / context, num_bytes, fitting)


def _size_store(
    geometry: Geometry, bits: int, exact: bool, budget: int | None, document_tokens: float | None
) -> StoreSize:
    recipe = make_recipe(bits, None, geometry.key_dim, exact)
    per_token = RecordSizes(geometry, recipe, HALF).bytes_per_token
    tokens = None if budget is None else int(budget / per_token)
    documents = None if tokens is None or not document_tokens else int(tokens / document_tokens)
    return StoreSize(bits, per_token, tokens, documents)
