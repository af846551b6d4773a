"""What both flows work with: an open store, its search index, the model that made it, and the recipe."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from store import ChunkStore, RecipeMismatch, StoreIdentity, StoreNotFound, StoreReadonly

from ..model.errors import ModelNotFound
from ..model.handle import ModelHandle
from ..retrieval import SearchIndex
from .fillers import META_NAME as FILLERS_NAME
from .fillers import Filler, make_pool, pool_from_bytes, pool_to_bytes
from .prepare import ChainLink, ChunkKeys, PreparedDocument, preamble_key
from .prompt import GENERIC_HEADER
from .recipe import Recipe, make_recipe, recipe_from_facts
from .searching import StoreSearch

if TYPE_CHECKING:
    from .encoding import Encoder

MODEL_FACT, DTYPE_FACT = "model", "dtype"

MakeHandle = Callable[[str | None, str], ModelHandle]
"""Makes a handle from a model's name (None: the default model) and a dtype (``auto``: the machine's choice)."""


@dataclass(frozen=True)
class WorkspaceRequest:
    """What the user set about store, model and recipe; ``None`` and ``auto`` leave it to store and machine.

    ``model`` is remembered in a new store, so a directory has to be absolute.
    """

    store_dir: Path
    model: str | None
    dtype: str
    bits: int | None = None
    contexts: int | None = None
    exact: bool | None = None


@dataclass(frozen=True)
class Workspace:
    """An open store with everything that reading or extending it needs."""

    store: ChunkStore
    store_search: StoreSearch
    handle: ModelHandle
    recipe: Recipe

    @property
    def search(self) -> SearchIndex:
        """The store's search index, opened when first used."""
        return self.store_search.index

    @cached_property
    def keys(self) -> ChunkKeys:
        """Makes keys of this model and recipe."""
        return ChunkKeys(self.handle.fingerprint, self.recipe)

    @cached_property
    def preamble(self) -> tuple[int, ...]:
        """The store's own preamble, that of prompts without ``--system``; imports transformers."""
        return self.handle.codec.frame(None).preamble

    def chain(self, prepared: PreparedDocument) -> tuple[ChainLink, ...]:
        """A document's links right behind the store's preamble, as far as exact KV of it is kept."""
        if not self.recipe.exact:
            return ()
        parent = preamble_key(self.handle.fingerprint, self.preamble, rope_variant=0)
        links, length = [], len(self.preamble)
        for link in self.keys.chain(parent, [prepared.runs]):
            length += len(link.token_ids)
            if length > self.handle.exact_positions:
                break
            links.append(link)
        return tuple(links)

    def make_encoder(self, pool_documents: Callable[[], Iterable[tuple[str, Sequence[int]]]]) -> "Encoder":
        """An encoder for missing chunks; loads the model and with it torch.

        ``pool_documents`` gives content hash and token ids of documents for the fillers, if the store has none yet.
        """
        from .encoding import Encoder

        codec = self.handle.codec
        return Encoder(
            self.handle.loaded,
            self.handle.fingerprint,
            self.recipe,
            preamble=self.preamble,
            separator=codec.token_ids(GENERIC_HEADER),
            pool=self.ensure_pool(pool_documents),
        )

    def make_chain_encoder(self, preamble: Sequence[int]) -> "Encoder":
        """An encoder for exact KV behind another preamble than the store's own; loads the model and with it torch."""
        from .encoding import Encoder

        return Encoder(self.handle.loaded, self.handle.fingerprint, self.recipe, preamble, separator=(), pool=())

    def ensure_pool(self, documents: Callable[[], Iterable[tuple[str, Sequence[int]]]]) -> tuple[Filler, ...]:
        """The store's fillers, made from ``documents`` (content hash and token ids of each) the first time.

        Damaged ones are made anew, too: what was encoded behind the old ones is as good as before.
        """
        with self.store.snapshot() as snapshot:
            data = snapshot.meta(FILLERS_NAME)
        stored = None if data is None else pool_from_bytes(data)
        if stored is not None:
            return stored
        pool = make_pool(documents(), self.recipe.filler_tokens, self.handle.codec.token_ids)
        self.store.put_meta(FILLERS_NAME, pool_to_bytes(pool))
        return pool


@contextmanager
def open_workspace(
    request: WorkspaceRequest,
    make_handle: MakeHandle,
    *,
    create: bool = False,
    force: bool = False,
    readonly: bool = False,
) -> Iterator[Workspace]:
    """Open the store, or make it when ``create`` is set and there is none.

    ``force`` gives an existing store the request's recipe; a ``readonly`` one is only looked at as if it had it.
    Raises the store's errors: ``StoreNotFound``, ``ModelMismatch`` and ``RecipeMismatch`` among them.
    """
    try:
        store = open_store(request.store_dir, readonly=readonly)
    except StoreNotFound:
        if not create:
            raise
        store, handle, recipe = _create(request, make_handle)
    else:
        with _closed_on_error(store):
            handle, recipe = _match(store, request, make_handle, force)
    with store, StoreSearch(store, lambda ids: handle.codec.text(ids)) as search:
        yield Workspace(store, search, handle, recipe)


def open_store(store_dir: Path, *, readonly: bool = False) -> ChunkStore:
    """Open a store for writing if that is wanted and can be done, else for reading."""
    if not readonly:
        with suppress(StoreReadonly):
            return ChunkStore.open(store_dir)
    return ChunkStore.open(store_dir, readonly=True)


def stored_facts(store_dir: Path) -> Mapping[str, int | str]:
    """What a store tells of its model and recipe; nothing where there is no store."""
    try:
        with ChunkStore.open(store_dir, readonly=True) as store:
            return store.identity.recipe_text
    except StoreNotFound:
        return {}


def _create(request: WorkspaceRequest, make_handle: MakeHandle) -> tuple[ChunkStore, ModelHandle, Recipe]:
    handle = make_handle(request.model, request.dtype)
    handle.require_supported()
    recipe = make_recipe(request.bits, request.contexts, handle.head_dim, request.exact)
    identity = _identity(handle, recipe, request.model or handle.name)
    return ChunkStore.open_or_create(request.store_dir, identity), handle, recipe


def _match(
    store: ChunkStore, request: WorkspaceRequest, make_handle: MakeHandle, force: bool
) -> tuple[ModelHandle, Recipe]:
    """The model and recipe of an existing store, checked against what the user asked for."""
    facts = store.identity.recipe_text
    model = request.model or str(facts[MODEL_FACT])
    dtype = request.dtype if request.dtype != "auto" else str(facts[DTYPE_FACT])
    try:
        handle = make_handle(model, dtype)
    except ModelNotFound as error:
        if request.model is not None:
            raise
        raise ModelNotFound(f"the model that the store was built with is not there: {model}") from error
    recipe = _merged_recipe(request, recipe_from_facts(facts), handle.head_dim)
    wanted = _identity(handle, recipe, model)
    try:
        store.require_identity(wanted)
    except RecipeMismatch:
        if not force:
            raise
        if not store.readonly:
            store.replace_identity(wanted)
    return handle, recipe


def _merged_recipe(request: WorkspaceRequest, stored: Recipe, head_dim: int) -> Recipe:
    """What the user set, and the store's own settings for the rest."""
    return make_recipe(
        stored.bits if request.bits is None else request.bits,
        stored.contexts if request.contexts is None else request.contexts,
        head_dim,
        stored.exact if request.exact is None else request.exact,
    )


def _identity(handle: ModelHandle, recipe: Recipe, model: str) -> StoreIdentity:
    """Fingerprint and recipe, with the facts that later commands need to find the model again."""
    fingerprint = handle.fingerprint
    name = f"{fingerprint.name} in {fingerprint.dtype}"
    facts = {**recipe.facts, MODEL_FACT: model, DTYPE_FACT: fingerprint.dtype}
    return StoreIdentity(fingerprint.digest, name, recipe.digest, facts)


@contextmanager
def _closed_on_error(store: ChunkStore) -> Iterator[None]:
    try:
        yield
    except BaseException:
        store.close()
        raise
