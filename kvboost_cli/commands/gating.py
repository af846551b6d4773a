"""The fidelity gate as commands meet it: known or checked now, and told aloud when it fails."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store import ChunkStore

    from ..model.handle import ModelHandle
    from ..pipelines.fidelity import FidelityResult, FidelityShelf
    from ..pipelines.recipe import Recipe
    from ..pipelines.workspace import Workspace


@dataclass(frozen=True)
class Gate:
    """Whether stored chunks may be reused by content, and what finding that out took, in seconds.

    With ``full_prefill`` nothing is reused, and nothing may be computed but by full prefill. Not ``is_settled``: the
    store had nothing to reuse, so it has to be passed again as soon as something was kept.
    """

    content_hits: bool
    full_prefill: bool = False
    check_s: float = 0.0
    is_settled: bool = True


def ensure_gate(
    handle: "ModelHandle", recipe: "Recipe", store: "ChunkStore | None", *, quiet: bool, recheck: bool = False
) -> tuple["FidelityResult", float]:
    """What is known of this model, recipe and machine, else what is measured now; and the seconds spent on it.

    ``recheck`` measures anew. Raises ``FidelityNotMeasured``.
    """
    from .. import console
    from ..pipelines.gate import measure_fidelity

    known = None if recheck else _find_known(handle, recipe, store)
    if known is not None:
        return known, 0.0
    if not quiet:
        console.say("checking once that this model can reuse KV on this machine")
    result = measure_fidelity(handle, recipe)
    _shelf(store).keep(result)
    return result, result.seconds


def _find_known(handle: "ModelHandle", recipe: "Recipe", store: "ChunkStore | None") -> "FidelityResult | None":
    from ..pipelines.gate import gate_key

    return _shelf(store).find(gate_key(handle, recipe))


def _shelf(store: "ChunkStore | None") -> "FidelityShelf":
    from ..pipelines.fidelity import FidelityShelf
    from ..settings import user_cache_dir

    return FidelityShelf(store, user_cache_dir())


def check_before_ask(workspace: "Workspace", *, quiet: bool) -> Gate:
    """The gate for a question; while the store has nothing to reuse, it is open unless a machinery fault is known."""
    with workspace.store.snapshot() as snapshot:
        is_empty = next(snapshot.documents(), None) is None
    if is_empty:
        known = _find_known(workspace.handle, workspace.recipe, workspace.store)
        if known is None or known.machinery_passed:
            return Gate(content_hits=True, is_settled=False)
    return _check(workspace, "stored chunks are not reused", "full prefill is used", quiet=quiet)


def check_before_index(workspace: "Workspace", *, quiet: bool) -> Gate:
    """Warn while it is early that what will be indexed is of no use."""
    consequence = "chunks that are indexed now will not be reused"
    return _check(workspace, consequence, consequence, quiet=quiet)


def _check(workspace: "Workspace", unless_reuse: str, unless_machinery: str, *, quiet: bool) -> Gate:
    """The gate, with a warning that begins with what follows from the fault if there is one."""
    from .. import console
    from ..pipelines.errors import FidelityNotMeasured

    try:
        result, check_s = ensure_gate(workspace.handle, workspace.recipe, workspace.store, quiet=quiet)
    except FidelityNotMeasured as error:
        console.warn(f"{unless_reuse}: {error}")
        return Gate(content_hits=False)
    if not result.passed:
        consequence = unless_reuse if result.machinery_passed else unless_machinery
        console.warn(f"{consequence}, since this model failed its check: {result.reason}; see `kvboost doctor`")
    return Gate(result.passed, not result.machinery_passed, check_s)
