"""The checks of ``kvboost doctor``. Each finds a fact or a fault; what one needs and another missed is not checked."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from . import failures, gating, options

if TYPE_CHECKING:
    from store import ChunkStore, DocumentEntry, Snapshot, StoreIdentity

    from ..model.handle import ModelHandle
    from ..pipelines.fidelity import FidelityResult
    from ..pipelines.recipe import Recipe
    from ..settings import Settings

OK, FAILED, NOT_CHECKED = "ok", "failed", "not checked"
NAMES = ("versions", "device", "model", "store", "entries", "search", "match", "fidelity")
LIBRARIES = ("torch", "transformers", "lmdb")
_REINSTALL = "install kvboost again, in an environment of its own"
_REINDEX = "run `kvboost index` on these documents again: it makes anew what is damaged"
_OTHER_MODEL = "choose another model with --model, or report it; until then"
_CONSEQUENCES = {True: "nothing is reused by content", False: "full prefill is used"}
"""Of a failed gate, by whether the machinery passed."""


@dataclass(frozen=True)
class Check:
    """One line of the list; ``next_step`` is for failures."""

    name: str
    state: str
    detail: str
    next_step: str | None = None


@dataclass(frozen=True)
class Checkup:
    """All checks in order, and the fidelity gate's result if there is one."""

    checks: tuple[Check, ...]
    fidelity: "FidelityResult | None"

    @property
    def healthy(self) -> bool:
        """Whether nothing failed."""
        return all(check.state != FAILED for check in self.checks)


def examine(settings: "Settings", *, recheck: bool) -> Checkup:
    """Run all checks; ``recheck`` measures fidelity although a result is known."""
    versions = check_versions()
    if versions.state == FAILED:  # the others could not even be imported
        rest = [Check(name, NOT_CHECKED, "a library is missing") for name in NAMES[1:]]
        return Checkup((versions, *rest), None)
    store_checks, identity = check_store(settings)
    device = check_device(settings, identity)
    model, handle = check_model(settings, identity)
    before = (versions, device, model, *store_checks)
    if handle is None or device.state == FAILED:
        rest = [Check(name, NOT_CHECKED, "model or device is missing") for name in ("match", "fidelity")]
        return Checkup((*before, *rest), None)
    if identity is None:
        rest, fidelity = check_without_store(settings, handle, recheck=recheck)
    else:
        rest, fidelity = check_with_store(settings, recheck=recheck)
    return Checkup((*before, *rest), fidelity)


def check_versions() -> Check:
    """Python and the libraries whose versions matter most."""
    told = [f"Python {platform.python_version()}"]
    for library in LIBRARIES:
        try:
            told.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            return Check("versions", FAILED, f"a library is not installed: {library}", _REINSTALL)
    return Check("versions", OK, ", ".join(told))


def check_device(settings: "Settings", identity: "StoreIdentity | None") -> Check:
    """Where and in what commands would compute."""
    try:
        from ..model.load import choose_device, choose_dtype
        from ..pipelines.streaming import has_kernel
    except ImportError as error:
        return Check("device", FAILED, f"torch or transformers cannot be imported: {error}", _REINSTALL)
    try:
        device = choose_device(settings.device)
    except Exception as error:
        return failed_by("device", error)
    told = f"{device}, {choose_dtype(_wanted(settings, identity)[1], device)}"
    if device.type == "cuda":
        told += (
            ", stored layers by the fused kernel" if has_kernel(device) else ", stored layers without Triton: slower"
        )
    return Check("device", OK, told)


def check_model(settings: "Settings", identity: "StoreIdentity | None") -> tuple[Check, "ModelHandle | None"]:
    """The store's model, or the one that is set: there, with a tokenizer, of a supported architecture."""
    try:
        handle = options.make_handle(settings, *_wanted(settings, identity))
        handle.require_supported()
        _ = handle.codec
    except Exception as error:
        return failed_by("model", error), None
    return Check("model", OK, f"{handle.name}, {handle.path}"), handle


def check_store(settings: "Settings") -> tuple[list[Check], "StoreIdentity | None"]:
    """Store, entries and search index; the identity is None if there is no store to read."""
    from store import StoreNotFound

    from ..pipelines.workspace import open_store

    inner = [Check(name, NOT_CHECKED, "there is no store to look into") for name in ("entries", "search")]
    try:
        with open_store(settings.store_dir, readonly=True) as store:
            return list(_look_into(store)), store.identity
    except StoreNotFound as error:
        return [Check("store", NOT_CHECKED, f"{error}; `kvboost index PATH` makes it"), *inner], None
    except Exception as error:
        return [failed_by("store", error), *inner], None


def _look_into(store: "ChunkStore") -> tuple[Check, Check, Check]:
    facts = store.stats()
    told = f"{facts.path}, format {facts.format}, {facts.num_documents:,} documents, {facts.file_bytes / 1e6:,.1f} MB"
    with store.snapshot() as snapshot:
        entries = list(snapshot.documents())
        checked = check_entries(snapshot, entries, num_damaged=len(snapshot.damaged))
    return Check("store", OK, told), checked, check_search(store, entries)


def check_entries(snapshot: "Snapshot", entries: "list[DocumentEntry]", *, num_damaged: int) -> Check:
    """Whether every record that a sound entry names has a sound header, or gave way to others; layers are not read."""
    chunks = {key for entry in entries for key in entry.chunk_keys}
    exact = {key for entry in entries for key in entry.position_keys}
    num_missing = len(snapshot.lost([*chunks, *exact]))
    if num_damaged or num_missing:
        fault = f"damaged or missing: {num_damaged:,} documents' entries and {num_missing:,} records' headers"
        return Check("entries", FAILED, fault, _REINDEX)
    num_evicted = sum(map(snapshot.is_evicted, [*chunks, *exact]))
    told = f"{len(entries):,} documents, {len(chunks):,} chunks, {len(exact):,} exact records: every header is sound"
    evicted = f"; {num_evicted:,} records gave way to others and are made anew on demand" if num_evicted else ""
    return Check("entries", OK, f"{told}{evicted}")


def check_search(store: "ChunkStore", entries: "list[DocumentEntry]") -> Check:
    """Whether the search index has what the store has."""
    from ..pipelines.searching import FILE_NAME
    from ..retrieval import SearchIndex

    if not entries:
        return Check("search", OK, "there are no documents yet")
    try:
        with SearchIndex(store.path / FILE_NAME, readonly=True) as index:
            hashes = index.document_hashes()
    except Exception as error:
        return failed_by("search", error)
    num_lacking = sum(hashes.get(entry.name) != entry.content_hash for entry in entries)
    if num_lacking:
        step = "run `kvboost index`, or ask without -d: either completes it"
        return Check("search", FAILED, f"the search index lacks documents: {num_lacking:,} of {len(entries):,}", step)
    return Check("search", OK, f"{len(entries):,} documents can be found by their words")


def check_with_store(settings: "Settings", *, recheck: bool) -> tuple[list[Check], "FidelityResult | None"]:
    """Whether model and settings are those of the store, and the gate for them."""
    try:
        with options.open_workspace(settings) as workspace:
            recipe = workspace.recipe
            match = f"{workspace.store.identity}, {recipe.bits} bits, {recipe.contexts} contexts"
            fidelity, result = check_fidelity(workspace.handle, recipe, workspace.store, recheck=recheck)
            return [Check("match", OK, match), fidelity], result
    except Exception as error:
        untested = Check("fidelity", NOT_CHECKED, "model and settings do not match a store")
        return [failed_by("match", error), untested], None


def check_without_store(
    settings: "Settings", handle: "ModelHandle", *, recheck: bool
) -> tuple[list[Check], "FidelityResult | None"]:
    """The gate for the store that would be made."""
    from ..pipelines.recipe import make_recipe

    match = Check("match", NOT_CHECKED, "there is no store to compare model and settings with")
    try:
        recipe = make_recipe(settings.bits, settings.contexts, handle.head_dim, settings.exact)
    except Exception as error:
        return [match, failed_by("fidelity", error)], None
    fidelity, result = check_fidelity(handle, recipe, None, recheck=recheck)
    return [match, fidelity], result


def check_fidelity(
    handle: "ModelHandle", recipe: "Recipe", store: "ChunkStore | None", *, recheck: bool
) -> tuple[Check, "FidelityResult | None"]:
    """Whether this model's KV may be reused on this machine."""
    try:
        result, _check_s = gating.ensure_gate(handle, recipe, store, quiet=False, recheck=recheck)
    except Exception as error:
        return failed_by("fidelity", error), None
    told = f"{result.figures}, in {result.seconds:.1f} s on {result.machine}"
    if result.passed:
        return Check("fidelity", OK, told), result
    step = f"{_OTHER_MODEL} {_CONSEQUENCES[result.machinery_passed]}"
    return Check("fidelity", FAILED, f"{result.reason}; {told}", step), result


def failed_by(name: str, error: Exception) -> Check:
    """The failure that an error stands for; one that nobody foresaw is raised again."""
    if failures.find_failure(error) is None:
        raise error
    return Check(name, FAILED, *failures.describe(error))


def _wanted(settings: "Settings", identity: "StoreIdentity | None") -> tuple[str | None, str]:
    """Model and dtype: what was set, else what the store was made with."""
    from ..pipelines.workspace import DTYPE_FACT, MODEL_FACT

    facts = {} if identity is None else identity.recipe_text
    model = settings.model or facts.get(MODEL_FACT)
    dtype = settings.dtype if settings.dtype != "auto" else facts.get(DTYPE_FACT, "auto")
    return None if model is None else str(model), str(dtype)
