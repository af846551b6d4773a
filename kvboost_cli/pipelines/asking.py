"""The ask flow: question and documents -> plan -> load and rotate -> repair and tail in one pass -> tokens.

``start_answer`` ends with the first token known on the host: there the clock of TTFT stops. The caller streams
``Answer.tokens`` and then has the rest done: verification, write-back, the report.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from store import DamagedRecord

from ..model.cache import ScatterCache
from ..model.decode import Sampler, decode_tokens, make_sampler
from ..model.forward import PrefilledCache, adopt_cache, full_prefill
from ..model.load import LoadedModel
from .asked import FoundDocuments, found_documents, named_documents
from .clock import PhaseClock
from .device_memory import require_device_memory
from .errors import EmptyQuestion, NothingFound
from .lookup import Found, Prompt, build_prompt, find_stored, nothing_stored, plan_prompt, require_room
from .ordering import order_prompt
from .plan import Hit, StitchPlan
from .prompt import tail_ids
from .repairing import REPAIRS, effective_name
from .repairs.task import Repaired, RepairTask
from .stitch import StoredChunk
from .streaming import StoredPrompt, choose_loader
from .workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class AskRequest:
    """A question and how to answer it: greedily unless told otherwise.

    Without ``documents`` the search index picks ``top_k``.
    ``content_hits`` is False for a model that failed the fidelity gate: then only exact KV is reused. ``order`` is a
    name of ``ordering``.
    """

    question: str
    documents: Sequence[str]
    top_k: int
    repair: str
    max_tokens: int
    ratio: float | None = None
    no_cache: bool = False
    temperature: float = 0.0
    seed: int | None = None
    system: str | None = None
    content_hits: bool = True
    order: str = "given"


@dataclass(frozen=True)
class Stitched:
    """A prompt in the cache: where its KV came from, and the logits [vocabulary] after its last token.

    ``damaged`` holds keys of records that failed their checksum and were not used. ``prefilled`` is full prefill's own
    cache, with ``--no-cache``. ``mass`` is the attention that each position got, if the repair measured it.
    """

    prompt: Prompt
    plan: StitchPlan
    found: Found
    kv: ScatterCache
    logits: Tensor
    num_repaired: int
    damaged: frozenset[bytes]
    prefilled: PrefilledCache | None = None
    mass: Tensor | None = None


@dataclass
class Answer:
    """An answer whose first token is known. ``tokens`` decodes it and fills ``token_ids``.

    ``passed_over`` tells why documents that the search found are not in the prompt.
    """

    stitched: Stitched
    first_token: int
    max_tokens: int
    sample: Sampler
    phases: dict[str, float]
    passed_over: tuple[str, ...]
    token_ids: list[int] = field(default_factory=list)
    decode_s: float = 0.0

    def tokens(self, model: LoadedModel) -> Iterator[int]:
        """Decode token by token; after an interruption ``token_ids`` has what came before it."""
        started = perf_counter()
        position = self.stitched.plan.num_tokens
        for token_id in decode_tokens(
            model, self.stitched.kv, self.first_token, position, self.max_tokens, self.sample
        ):
            self.token_ids.append(token_id)
            self.decode_s = perf_counter() - started
            yield token_id

    def drain(self, model: LoadedModel) -> None:
        """Decode to the end."""
        for _token_id in self.tokens(model):
            pass

    @property
    def finish_reason(self) -> str:
        """``length`` when the limit cut the answer, else ``stop``."""
        return "length" if len(self.token_ids) == self.max_tokens else "stop"


def start_answer(workspace: Workspace, request: AskRequest) -> Answer:
    """Everything up to the first token. The clock starts when the model is loaded.

    Raises ``EmptyQuestion``, ``NothingFound``, ``DocumentNotFound``, ``AmbiguousDocument``, ``PromptTooLong``,
    ``DeviceMemoryShort``.
    """
    require_question(request.question)
    clock = PhaseClock(workspace.handle.loaded.synchronize)
    prompt, passed_over = _splice_prompt(workspace, request, clock)
    return answer_prompt(workspace, request, prompt, passed_over, clock)


def require_question(question: str) -> None:
    """Raise ``EmptyQuestion`` if there is nothing to ask."""
    if not question.strip():
        raise EmptyQuestion(f"the question is empty: {question!r}")


def answer_prompt(
    workspace: Workspace, request: AskRequest, prompt: Prompt, passed_over: tuple[str, ...], clock: PhaseClock
) -> Answer:
    """From a prompt's token ids to the first token. Raises ``PromptTooLong``, ``DeviceMemoryShort``."""
    model = workspace.handle.loaded
    max_tokens = min(request.max_tokens, require_room(prompt, model.geometry.max_positions))
    kv = _allocate_cache(workspace, prompt, max_tokens, no_cache=request.no_cache)
    stitched = (_prefill if request.no_cache else _stitch)(workspace, prompt, request, kv, clock)
    sample = make_sampler(request.temperature, request.seed)
    first_token = sample(stitched.logits)
    clock.lap("first_token_s")
    if stitched.prefilled is not None:
        adopt_cache(stitched.prefilled, kv)
    return Answer(stitched, first_token, max_tokens, sample, clock.phases, passed_over)


def _splice_prompt(workspace: Workspace, request: AskRequest, clock: PhaseClock) -> tuple[Prompt, tuple[str, ...]]:
    """The prompt with its documents in order, and why documents that were found are not in it."""
    codec = workspace.handle.codec
    frame = codec.frame(request.system)
    tail = tail_ids(codec, request.question, frame.closing)
    clock.lap("tokenize_s")
    room = workspace.handle.loaded.geometry.max_positions - len(frame.preamble) - len(tail)
    chosen = choose_documents(workspace, request, room)
    prompt = build_prompt(codec, frame.preamble, chosen.documents, tail)
    return order_prompt(workspace, prompt, request.question, request.order), chosen.passed_over


def _allocate_cache(workspace: Workspace, prompt: Prompt, max_tokens: int, *, no_cache: bool) -> ScatterCache:
    """The cache for a prompt and its longest answer, if the device has the memory for both."""
    model, num_tokens = workspace.handle.loaded, len(prompt.token_ids)
    capacity = num_tokens + max_tokens
    if no_cache:  # transformers has a cache of its own beside ours
        require_device_memory(model, workspace.recipe, num_tokens, num_tokens, 2 * capacity)
    else:
        require_device_memory(model, workspace.recipe, num_tokens, len(prompt.tail), capacity)
    return ScatterCache(model.geometry, capacity, model.dtype, model.device)


def choose_documents(workspace: Workspace, request: AskRequest, room: int) -> FoundDocuments:
    """The documents that the request names or, without names, those that search finds; ``room`` is in tokens."""
    if request.documents:
        return FoundDocuments(tuple(named_documents(workspace, request.documents)), ())
    share = (room - request.max_tokens) // request.top_k
    found = found_documents(workspace, request.question, request.top_k, share)
    if not found.documents:
        raise NothingFound(f"no indexed document has a word of the question: {request.question.strip()[:80]}")
    return found


def _prefill(
    workspace: Workspace, prompt: Prompt, _request: AskRequest, kv: ScatterCache, clock: PhaseClock
) -> Stitched:
    """``--no-cache``: full prefill by transformers."""
    model = workspace.handle.loaded
    clock.lap("lookup_s")
    logits, prefilled = full_prefill(model, torch.tensor([prompt.token_ids], device=model.device))
    found = nothing_stored(prompt)
    return Stitched(prompt, plan_prompt(prompt, found), found, kv, logits[0, -1], 0, frozenset(), prefilled)


def _stitch(workspace: Workspace, prompt: Prompt, request: AskRequest, kv: ScatterCache, clock: PhaseClock) -> Stitched:
    model = workspace.handle.loaded
    plan, found, damaged = load_stored(workspace, prompt, kv, clock, content_hits=request.content_hits)
    repair = REPAIRS[effective_name(request.repair)]
    repaired = repair(RepairTask(model, prompt.token_ids, plan, kv, request.ratio))
    clock.lap(_name_pass(plan, repaired))
    num_repaired = len(repaired.positions)
    return Stitched(prompt, plan, found, kv, repaired.logits, num_repaired, damaged, mass=repaired.mass)


def _name_pass(plan: StitchPlan, repaired: Repaired) -> str:
    """The phase of the pass that computes all that has no KV: named for documents if some miss, else for repair."""
    if any(chunk.hit is Hit.MISS for chunk in plan.chunks):
        return "encode_missing_s"
    return "repair_s" if repaired.positions else "first_token_s"


def load_stored(
    workspace: Workspace, prompt: Prompt, kv: ScatterCache, clock: PhaseClock, *, content_hits: bool = True
) -> tuple[StitchPlan, Found, frozenset[bytes]]:
    """Fill the cache with all that the store has; a record that proves damaged is as if it were not there."""
    model, recipe = workspace.handle.loaded, workspace.recipe
    variant = model.rope_variant(len(prompt.token_ids))
    load = choose_loader(model.device)
    damaged: set[bytes] = set()
    while True:
        with workspace.store.snapshot() as snapshot:
            found = find_stored(snapshot, prompt, workspace.keys, variant, damaged, content_hits=content_hits)
            plan = plan_prompt(prompt, found)
            num_fresh = len(plan.fresh_positions()) + plan.num_tail_tokens
            require_device_memory(model, recipe, plan.num_tokens, num_fresh, capacity=0)  # the cache is there
            clock.lap("lookup_s")
            try:
                load(snapshot, _stored_prompt(plan, found), model, recipe, kv)
                clock.lap("load_s")
                return plan, found, frozenset([*damaged, *snapshot.damaged])
            except DamagedRecord:
                damaged.update(snapshot.damaged)


def _stored_prompt(plan: StitchPlan, found: Found) -> StoredPrompt:
    preamble = None if found.preamble is None else (found.preamble_key, found.preamble)
    return StoredPrompt(preamble, _stored_chunks(plan, found), plan.num_tokens)


def _stored_chunks(plan: StitchPlan, found: Found) -> list[StoredChunk]:
    return [
        StoredChunk(placed, record.key, record.header)
        for placed, record in zip(plan.chunks, found.chunks, strict=True)
        if record is not None
    ]
