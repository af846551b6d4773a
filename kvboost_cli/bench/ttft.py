"""Time to first token of each repair strategy, in turn with full prefill of the same token ids.

Every prompt has its documents in an order of its own, so that nothing was seen before but the documents themselves. The
clock stands outside of what is measured: it runs from the question being in hand to the first token being known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from ..model.forward import full_prefill
from ..model.handle import ModelHandle
from ..model.load import LoadedModel
from ..pipelines.asking import Answer, AskRequest, start_answer
from ..pipelines.plan import Hit
from ..pipelines.report import PHASES
from .common import describe_setup
from .errors import DocumentsNotStored, SizeTooLarge
from .floor import measure_copy_rate, measure_floor
from .memory import MemoryUse
from .sizes import take_turns
from .speed_prompts import ANSWER_TOKENS, PASSAGE_TOKENS, QUESTION, Course, TTFTRequest
from .stand import Stand
from .ttft_results import AskTimes, PromptTimes, TTFTRun

WITH_CONTEXTS = False
"""The stand's workspace whose chunks are not encoded alone."""


@dataclass(frozen=True)
class Asked:
    """What an ask took, and the prompt that it made."""

    times: AskTimes
    prompt_ids: list[int]


def require_context(courses: Sequence[Course], handle: ModelHandle) -> None:
    """Raise ``SizeTooLarge`` unless the longest prompt of each size and its answer fit the model's context."""
    room = handle.loaded.geometry.max_positions
    for course in courses:
        length = course.longest_tokens + ANSWER_TOKENS
        if length > room:
            raise SizeTooLarge(
                f"prompts of the size {course.size.name} and their answers do not fit the model's context of "
                f"{room:,} tokens: {length:,} tokens"
            )


def make_run(
    stand: Stand,
    request: TTFTRequest,
    seconds: float,
    memory: Sequence[MemoryUse],
    prompts: Sequence[PromptTimes],
    *,
    complete: bool,
) -> TTFTRun:
    """What was measured, with all that it depends on."""
    return TTFTRun(
        setup=describe_setup(stand.workspaces[WITH_CONTEXTS]),
        docs=str(request.docs),
        seed=request.seed,
        repeats=request.repeats,
        passage_tokens=PASSAGE_TOKENS,
        strategies=request.strategies,
        seconds=seconds,
        complete=complete,
        memory=tuple(memory),
        prompts=tuple(prompts),
    )


def measure_course(stand: Stand, course: Course, strategies: Sequence[str]) -> Iterator[PromptTimes | None]:
    """Ask each prompt of a size with each strategy; the documents have to be indexed.

    The first prompt warms up, and gives None. Then the strategies take turns in going first; full prefill follows the
    one that does.
    """
    for number, _order in enumerate(course.orders):
        measured = _measure_prompt(stand, course, number, strategies)
        yield measured if number else None


def _measure_prompt(stand: Stand, course: Course, number: int, strategies: Sequence[str]) -> PromptTimes:
    model = stand.workspaces[WITH_CONTEXTS].handle.loaded
    copy_bytes_per_s = measure_copy_rate(model)
    first, *others = take_turns(strategies, number)
    asked = _ask(stand, course, number, first, copy_bytes_per_s)
    full_prefill_s = time_full_prefill(model, asked.prompt_ids)
    times = {first: asked.times}
    for strategy in others:
        again = _ask(stand, course, number, strategy, copy_bytes_per_s)
        assert again.prompt_ids == asked.prompt_ids, "every strategy has the same prompt"
        times[strategy] = again.times
    return PromptTimes(
        size=course.size.name,
        number=number,
        documents=tuple(Path(path).name for path in ordered_paths(stand, course, number)),
        prompt_tokens=len(asked.prompt_ids),
        full_prefill_s=full_prefill_s,
        asks=tuple(times[strategy] for strategy in strategies),
    )


def time_full_prefill(model: LoadedModel, token_ids: Sequence[int]) -> float:
    """Seconds until plain transformers knows the first token of a prompt."""
    model.synchronize()
    started = perf_counter()
    logits, _cache = full_prefill(model, torch.tensor([list(token_ids)], device=model.device))
    int(logits[0, -1].argmax())
    return perf_counter() - started


def ordered_paths(stand: Stand, course: Course, number: int) -> list[str]:
    """The documents of a course's prompt, in its order."""
    paths = stand.paths(0)
    return [paths[index] for index in course.orders[number]]


def _ask(stand: Stand, course: Course, number: int, strategy: str, copy_bytes_per_s: float) -> Asked:
    """Ask as the command does, up to the first token; the cache is gone when this returns."""
    workspace = stand.workspaces[WITH_CONTEXTS]
    model = workspace.handle.loaded
    paths = ordered_paths(stand, course, number)
    request = AskRequest(
        question=QUESTION, documents=paths, top_k=len(paths), repair=strategy, max_tokens=ANSWER_TOKENS
    )
    model.synchronize()
    started = perf_counter()
    answer = start_answer(workspace, request)
    model.synchronize()
    ttft_s = perf_counter() - started
    _require_stored(answer)
    stitched = answer.stitched
    times = AskTimes(
        strategy=strategy,
        ttft_s=ttft_s,
        phases={phase: answer.phases.get(phase, 0.0) for phase in PHASES},
        repaired_tokens=stitched.num_repaired,
        floor=measure_floor(model, stitched, copy_bytes_per_s),
    )
    return Asked(times, stitched.prompt.token_ids)


def _require_stored(answer: Answer) -> None:
    for document, segment in zip(answer.stitched.prompt.documents, answer.stitched.plan.segments, strict=True):
        if any(chunk.hit is Hit.MISS for chunk in segment.chunks):
            raise DocumentsNotStored(f"a document of the benchmark has no stored KV: {document.name}")
