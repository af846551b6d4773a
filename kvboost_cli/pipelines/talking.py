"""The turns of a conversation, each next one behind what the live cache already holds.

The first turn is an ask: documents are stitched, the question is its tail. A later turn is prefilled behind the live
cache. When documents change they are stitched anew, with all turns as the tail: these are short, and keep their ids.
``start_turn`` ends with the first token known; ``finish_turn`` takes the answer into the conversation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ..model.codec import ConversationFrame
from ..model.decode import make_sampler
from .asked import FoundDocuments, refetch
from .asking import Answer, AskRequest, answer_prompt, choose_documents, require_question
from .clock import PhaseClock
from .conversation import Conversation, Turn
from .device_memory import require_device_memory
from .errors import ConversationTooLong
from .finishing import make_report
from .live import LiveCache, keep_live
from .lookup import Prompt, build_prompt
from .ordering import order_prompt
from .prompt import question_ids
from .report import TurnCounts, count_tokens
from .workspace import Workspace


@dataclass(frozen=True)
class StartedTurn:
    """A turn whose first token is known. ``conversation`` is the one before it, with the documents that it has now.

    ``num_live`` tokens of the prompt were in the live cache: 0 where it was stitched. ``notice`` tells why tokens that
    were in the cache had to be computed again, if that was so.
    """

    conversation: Conversation
    question_ids: tuple[int, ...]
    answer: Answer
    num_live: int
    notice: str | None


@dataclass(frozen=True)
class _NextPrompt:
    """What a turn's prompt is made of, but for the documents."""

    frame: ConversationFrame
    question_ids: tuple[int, ...]
    tail: tuple[int, ...]


def start_turn(workspace: Workspace, request: AskRequest, conversation: Conversation) -> StartedTurn:
    """Everything up to the first token of the answer to ``request.question``; its ``documents`` are not looked at.

    Raises what ``start_answer`` raises, ``ConversationTooLong``, and ``ModelUnsupported`` for a template without turns.
    """
    require_question(request.question)
    model = workspace.handle.loaded
    clock = PhaseClock(model.synchronize)
    upcoming = _next_prompt(workspace, request, conversation.turns)
    clock.lap("tokenize_s")
    live = conversation.live
    if live is None or request.no_cache:
        return _stitch(workspace, request, conversation, upcoming, clock, None)
    prompt = replace(live.stitched.prompt, preamble=upcoming.frame.preamble, tail=upcoming.tail)
    num_live = live.num_served(prompt.token_ids, model.rope_variant(len(prompt.token_ids)))
    notice = _notice(live, num_live)
    if num_live < live.num_front_tokens:
        return _stitch(workspace, request, conversation, upcoming, clock, notice)
    answer = _go_on(workspace, request, live, prompt, num_live, clock)
    return StartedTurn(conversation, upcoming.question_ids, answer, num_live, notice)


def _next_prompt(workspace: Workspace, request: AskRequest, turns: Sequence[Turn]) -> _NextPrompt:
    codec = workspace.handle.codec
    frame = codec.frame_conversation(request.system, [turn.answer for turn in turns])
    ids = question_ids(codec, request.question, is_first=not turns)
    return _NextPrompt(frame, ids, (*_earlier_ids(turns, frame), *ids, *frame.closing))


def _earlier_ids(turns: Sequence[Turn], frame: ConversationFrame) -> list[int]:
    """Token ids of the turns so far, with what the template writes around their answers."""
    ids: list[int] = []
    for turn, around in zip(turns, frame.exchanges, strict=True):
        answer = turn.answer_ids if around.rewritten is None else around.rewritten
        ids.extend(chain(turn.question_ids, around.opening, answer, around.ending))
    return ids


def _notice(live: LiveCache, num_live: int) -> str | None:
    num_lost = len(live.token_ids) - num_live
    if num_live < live.num_front_tokens:
        return f"the live cache does not serve the longer prompt, so all of it is made anew: {num_lost:,} tokens"
    if num_lost > 0:
        return f"the chat template writes earlier turns in another way now; computed again: {num_lost:,} tokens"
    return None


def _stitch(
    workspace: Workspace,
    request: AskRequest,
    before: Conversation,
    upcoming: _NextPrompt,
    clock: PhaseClock,
    notice: str | None,
) -> StartedTurn:
    """The documents from the store, all turns behind them."""
    codec, preamble = workspace.handle.codec, upcoming.frame.preamble
    room = workspace.handle.geometry.max_positions - len(preamble) - len(upcoming.tail)
    chosen = _choose(workspace, request, before, room)
    prompt = build_prompt(codec, preamble, chosen.documents, upcoming.tail)
    order = "given" if before.is_ordered else request.order
    prompt = order_prompt(workspace, prompt, request.question, order)
    if before.turns:
        _answer_room(workspace, prompt)  # for what it raises: what is too long here is the conversation
    answer = answer_prompt(workspace, request, prompt, chosen.passed_over, clock)
    is_searched = before.is_searched or not before.documents
    conversation = replace(before, documents=prompt.documents, is_searched=is_searched, live=None)
    return StartedTurn(conversation, upcoming.question_ids, answer, 0, notice)


def _choose(workspace: Workspace, request: AskRequest, before: Conversation, room: int) -> FoundDocuments:
    if before.documents:
        return FoundDocuments(tuple(refetch(workspace, before.documents)), ())
    return choose_documents(workspace, replace(request, documents=()), room)


def _go_on(
    workspace: Workspace, request: AskRequest, live: LiveCache, prompt: Prompt, num_live: int, clock: PhaseClock
) -> Answer:
    """Prefill what the live cache lacks."""
    model, num_tokens = workspace.handle.loaded, len(prompt.token_ids)
    max_tokens = min(request.max_tokens, _answer_room(workspace, prompt))
    capacity = num_tokens + max_tokens
    num_new_places = max(0, capacity - live.stitched.kv.capacity)
    require_device_memory(model, workspace.recipe, num_tokens, num_tokens - num_live, num_new_places)
    clock.lap("lookup_s")
    logits = live.prefill(model, prompt, num_live, capacity)
    sample = make_sampler(request.temperature, request.seed)
    first_token = sample(logits)
    clock.lap("first_token_s")
    plan = replace(live.stitched.plan, num_tail_tokens=len(prompt.tail))
    stitched = replace(
        live.stitched, prompt=prompt, plan=plan, logits=logits, num_repaired=0, damaged=frozenset(), mass=None
    )
    return Answer(stitched, first_token, max_tokens, sample, clock.phases, ())


def _answer_room(workspace: Workspace, prompt: Prompt) -> int:
    """Tokens left for the answer; raises ``ConversationTooLong`` if there are none."""
    num_tokens, max_positions = len(prompt.token_ids), workspace.handle.geometry.max_positions
    if num_tokens < max_positions:
        return max_positions - num_tokens
    num_turns = len(prompt.tail)
    raise ConversationTooLong(
        f"the conversation does not fit the model's context of {max_positions:,} tokens; documents take "
        f"{num_tokens - num_turns:,}, the turns {num_turns:,}: {num_tokens:,} tokens"
    )


def finish_turn(
    workspace: Workspace, request: AskRequest, started: StartedTurn, broken_off: str | None = None, gate_s: float = 0.0
) -> Conversation:
    """The conversation with this turn and its report.

    An answer that was ``broken_off``, for this reason, is kept as far as it goes.
    """
    answer, before = started.answer, started.conversation
    used = replace(request, repair="none", ratio=None) if started.num_live else request
    report = make_report(workspace, used, answer, None, gate_s=gate_s)
    report = replace(report, tokens=count_turn(started), finish_reason=broken_off or report.finish_reason)
    turn = Turn(started.question_ids, tuple(answer.token_ids), report.answer, report)
    live = None if request.no_cache else keep_live(workspace.handle.loaded, answer)
    return replace(before, turns=(*before.turns, turn), live=live)


def count_turn(started: StartedTurn) -> TurnCounts:
    """Where the KV of each token of a turn's prompt came from."""
    stitched, num_live = started.answer.stitched, started.num_live
    counted = count_tokens(stitched.plan, stitched.num_repaired, len(started.answer.token_ids))
    if not num_live:
        return TurnCounts(**vars(counted), live_documents=0, live_turns=0)
    num_front = stitched.plan.tail_start
    return TurnCounts(
        prompt=counted.prompt, exact=0, reused=0, repaired=0, prefilled=counted.prompt - num_live,
        generated=counted.generated, live_documents=num_front, live_turns=num_live - num_front,
    )  # fmt: skip
