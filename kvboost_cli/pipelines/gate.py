"""The fidelity gate: may this model's KV be reused on this machine?

The built-in probes are indexed into a throwaway store and asked about in another order, by the pipelines that every
other document goes through, and compared with full prefill of the same token ids:

- the machinery: with every token computed again the result has to be full prefill's, up to numerical noise;
- the default repair: what reuse really costs. Far more than on any model that works means that keys are misplaced.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from store import StoreError

from ..documents import Skipped
from ..kv.errors import KVError
from ..model.handle import ModelHandle
from ..model.machine import cpu_name
from ..retrieval import SearchIndexError
from .asking import Answer, AskRequest, start_answer
from .errors import FidelityNotMeasured, PipelineError, ProbesRefused, PromptTooLong
from .fidelity import FidelityResult, GateKey
from .indexing import IndexRequest, index_documents
from .plan import Hit
from .probes import ASKED_ORDER, DOCUMENTS, QUESTIONS
from .recipe import Recipe
from .repairing import effective_name
from .verify import Divergence, Reference, measure_divergence, prefill_reference
from .workspace import Workspace, WorkspaceRequest, open_workspace

NUM_TOKENS = 16
"""Tokens of full prefill's continuation that each question is compared over."""

REPAIR = "auto"

NOT_CHECKED = "whether this model can reuse KV here could not be checked"

MAX_LOGIT_DIFF = 1e-3
"""In float32, as a share of the largest logit. The default model measures 0.000002: sums in another order. A wrong mask
or a wrong angle moves logits by tenths and more."""

MAX_MACHINERY_KL = 0.02
"""In 16 bits, nats. Full prefill in another order of sums differs by 0.001 to 0.003 in bfloat16 on the default model,
and by 0.00003 in float16. Some ten times that is allowed, since other models have other noise."""

MAX_REUSE_KL = 0.5
"""Nats. The default model measures 0.04 on these probes, whatever the recipe and dtype; tiny random models of each
architecture 0.01 to 0.05, and with huge key biases 0.15, in bfloat16 0.41. Keys that are rotated by base 10,000 instead
of 100,000 cost the default model 1.4, and random models 0.5 to 1.2. So this finds what is broken, not what is a little
off: base 500,000 costs the default model 0.13, and passes."""


def gate_key(handle: ModelHandle, recipe: Recipe) -> GateKey:
    """What a result of this model and recipe on this machine is kept under."""
    machine = name_machine(handle.device, handle.dtype)
    return GateKey(handle.fingerprint.digest.hex(), recipe.digest.hex(), machine, effective_name(REPAIR))


def name_machine(device: torch.device, dtype: str) -> str:
    """What decides numerical results besides the model; no name of a host.

    Such as ``cpu AMD EPYC, torch 2.13.0+cpu, transformers 5.24.0, bfloat16``.
    """
    names = {"cuda": lambda: torch.cuda.get_device_name(device), "cpu": cpu_name}
    name = names.get(device.type, lambda: "")()
    libraries = f"torch {torch.__version__}, transformers {version('transformers')}"
    return f"{device.type} {name}".strip() + f", {libraries}, {dtype}"


def measure_fidelity(handle: ModelHandle, recipe: Recipe) -> FidelityResult:
    """Run the gate; loads the model. Raises ``FidelityNotMeasured`` if that cannot be done."""
    key = gate_key(handle, recipe)
    _ = handle.loaded  # before the clock starts
    started = time.perf_counter()
    with _probe_store(handle, recipe) as (workspace, names):
        trials = [_try_question(workspace, names, question) for question in QUESTIONS]
    machinery, reuse = _join([trial.machinery for trial in trials]), _join([trial.reuse for trial in trials])
    figures = Figures(
        machinery_kl=_mean(machinery.kl),
        machinery_max_logit_diff=_finite(max(machinery.logit_differences)),
        largest_logit=max(trial.largest_logit for trial in trials),
        kl_mean=_mean(reuse.kl),
        kl_first=_mean([trial.reuse.kl[0] for trial in trials]),
        top1_agreement=sum(reuse.agrees) / len(reuse.agrees),
    )
    return _make_result(key, figures, handle.dtype, time.perf_counter() - started)


@dataclass(frozen=True)
class Figures:
    """What was measured; None stands for what is no finite number. ``largest_logit`` is of full prefill."""

    machinery_kl: float | None
    machinery_max_logit_diff: float | None
    largest_logit: float
    kl_mean: float | None
    kl_first: float | None
    top1_agreement: float


def find_machinery_fault(figures: Figures, dtype: str) -> str | None:
    """Why even what is computed again cannot be trusted, as half a sentence; None if it can."""
    difference, kl = figures.machinery_max_logit_diff, figures.machinery_kl
    if difference is None or kl is None or figures.kl_mean is None:
        return "its logits are no finite numbers"
    allowed = MAX_LOGIT_DIFF * max(1.0, figures.largest_logit)
    if dtype == "float32" and difference > allowed:
        return f"with all computed again a logit is off by {difference:.4f}, and {allowed:.4f} would be noise"
    if dtype != "float32" and kl > MAX_MACHINERY_KL:
        return f"with all computed again the KL is {kl:.3f} nats, and {MAX_MACHINERY_KL} would be noise"
    return None


def find_reuse_fault(figures: Figures) -> str | None:
    """Why a model whose machinery is sound fails, as half a sentence; None if it passes."""
    if figures.kl_mean is not None and figures.kl_mean > MAX_REUSE_KL:
        return f"with reuse the KL is {figures.kl_mean:.2f} nats, and {MAX_REUSE_KL} is allowed"
    return None


def _make_result(key: GateKey, figures: Figures, dtype: str, seconds: float) -> FidelityResult:
    machinery_fault = find_machinery_fault(figures, dtype)
    fault = machinery_fault or find_reuse_fault(figures)
    return FidelityResult(
        passed=fault is None,
        reason=fault,
        machinery_passed=machinery_fault is None,
        machinery_kl=figures.machinery_kl,
        machinery_max_logit_diff=figures.machinery_max_logit_diff,
        repair=key.repair,
        kl_mean=figures.kl_mean,
        kl_first=figures.kl_first,
        top1_agreement=figures.top1_agreement,
        model=key.model,
        recipe=key.recipe,
        machine=key.machine,
        at=time.time(),
        seconds=seconds,
    )


@dataclass(frozen=True)
class _Trial:
    """One question: with every token computed again, and with the default repair, against full prefill."""

    machinery: Divergence
    reuse: Divergence
    largest_logit: float


@contextmanager
def _probe_store(handle: ModelHandle, recipe: Recipe) -> Iterator[tuple[Workspace, list[str]]]:
    """A throwaway store with the probes in it, none of it exact, and their names in the order of asking."""
    with _failures_told(), TemporaryDirectory(prefix="kvboost-probes-") as temporary:
        folder = Path(temporary)
        for name, text in DOCUMENTS:
            (folder / name).write_text(text, encoding="utf-8")
        request = WorkspaceRequest(folder / "store", handle.name, handle.dtype, recipe.bits, recipe.contexts, False)
        with open_workspace(request, lambda _model, _dtype: handle, create=True) as workspace:
            _index_probes(workspace, [str(folder / name) for name, _text in DOCUMENTS])
            yield workspace, [str(folder / name) for name in ASKED_ORDER]


def _index_probes(workspace: Workspace, paths: Sequence[str]) -> None:
    for event in index_documents(workspace, IndexRequest(paths)):
        if isinstance(event, Skipped):
            raise FidelityNotMeasured(f"{NOT_CHECKED}: a built-in text was skipped, {event.reason}: {event.path}")


@contextmanager
def _failures_told() -> Iterator[None]:
    """The probes' failures, and those of the throwaway store, are not those of the user's documents and store."""
    try:
        yield
    except FidelityNotMeasured:
        raise
    except (OSError, StoreError, SearchIndexError) as error:
        raise FidelityNotMeasured(f"{NOT_CHECKED}: {error}") from error
    except (KVError, PipelineError) as error:
        raise ProbesRefused(f"{NOT_CHECKED}: {error}") from error


def _try_question(workspace: Workspace, names: Sequence[str], question: str) -> _Trial:
    everything = _ask(workspace, names, question, "selective", 1.0)
    ids = everything.stitched.prompt.token_ids
    reference = prefill_reference(workspace.handle.loaded, ids, everything.max_tokens)
    machinery = _compare(workspace, reference, everything)
    reuse = _compare(workspace, reference, _ask(workspace, names, question, REPAIR, None))
    return _Trial(machinery, reuse, float(reference.logits.abs().max()))


def _ask(workspace: Workspace, names: Sequence[str], question: str, repair: str, ratio: float | None) -> Answer:
    """Ask about the documents; a model whose context is too short for all is asked about the first ones."""
    request = AskRequest(
        question=question, documents=names, top_k=len(names), repair=repair, ratio=ratio, max_tokens=NUM_TOKENS
    )
    try:
        answer = start_answer(workspace, request)
    except PromptTooLong:
        if len(names) == 1:
            raise
        return _ask(workspace, names[:-1], question, repair, ratio)
    hits = {chunk.hit for chunk in answer.stitched.plan.chunks}
    assert hits == {Hit.CONTENT}, "every probe was just stored, and nothing of it is exact"
    return answer


def _compare(workspace: Workspace, reference: Reference, answer: Answer) -> Divergence:
    stitched = answer.stitched
    num_tokens = len(stitched.prompt.token_ids)
    model = workspace.handle.loaded
    return measure_divergence(model, reference, stitched.kv, stitched.logits, num_tokens, answer.max_tokens)


def _join(divergences: Sequence[Divergence]) -> Divergence:
    """The steps of all questions."""
    return Divergence(
        tuple(kl for one in divergences for kl in one.kl),
        tuple(agrees for one in divergences for agrees in one.agrees),
        tuple(difference for one in divergences for difference in one.logit_differences),
    )


def _mean(values: Sequence[float]) -> float | None:
    return _finite(sum(values) / len(values))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
