"""Answering questions one after another with one loaded model: stream, report, keep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .. import console
from . import ask_output, failures, gating

if TYPE_CHECKING:
    from ..pipelines.asking import Answer, AskRequest
    from ..pipelines.report import AskReport
    from ..pipelines.workspace import Workspace
    from ..settings import Settings

INTERRUPTED = "interrupted"

Show = Callable[["AskRequest", "AskReport"], None]


@dataclass(frozen=True)
class Answering:
    """What all questions of a run share. ``show`` prints a report; ``streams`` is False where the answer waits for it.

    ``quiet`` says nothing but warnings; without ``history`` an ask is only counted.
    """

    workspace: "Workspace"
    gate: gating.Gate
    verify: bool
    streams: bool
    quiet: bool
    show: Show
    history: bool


def make_request(
    settings: "Settings", question: str, names: Sequence[str], seed: int | None, gate: gating.Gate
) -> "AskRequest":
    """A question with what the user has set."""
    from ..pipelines.asking import AskRequest

    return AskRequest(
        question=question,
        documents=names,
        top_k=settings.top_k,
        repair=settings.repair,
        ratio=settings.ratio,
        no_cache=gate.full_prefill,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=seed,
        system=settings.system,
        content_hits=gate.content_hits,
        order=settings.order,
    )


def answer_one(run: Answering, request: "AskRequest") -> None:
    """Answer, report, and keep what had to be computed.

    Ctrl-C ends the answer: what there is of it is reported, nothing more is done, and ``KeyboardInterrupt`` goes on.
    """
    from ..pipelines import finishing
    from ..pipelines.asking import start_answer

    answer = start_answer(run.workspace, request)
    for reason in answer.passed_over:
        console.warn(f"passed over, {reason}")
    is_whole = decode(run, answer)
    verification = finishing.verify_answer(run.workspace, answer) if run.verify and is_whole else None
    report = finishing.make_report(run.workspace, request, answer, verification, gate_s=run.gate.check_s)
    run.show(request, report if is_whole else replace(report, finish_reason=INTERRUPTED))
    if not is_whole:
        raise KeyboardInterrupt
    if not run.gate.full_prefill:
        keep(run, answer, report)


def answer_all(run: Answering, requests: "Sequence[AskRequest]", *, as_json: bool) -> int:
    """Answer each; the number of those that failed, each told where it happened. Ctrl-C ends them all."""
    num_failed = 0
    for number, request in enumerate(requests, 1):
        run = _settle(run)
        if not run.quiet:
            console.say(f"[{number}/{len(requests)}] {request.question}")
        try:
            answer_one(run, _with_gate(request, run.gate))
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            if failures.find_failure(error) is None:
                raise
            num_failed += 1
            tell_failure(request.question, error, as_json=as_json)
        if run.streams and number < len(requests):
            console.write("\n")
    return num_failed


def _settle(run: Answering) -> Answering:
    """The gate is passed again where the store had nothing to reuse: an earlier question may have kept something."""
    if run.gate.is_settled:
        return run
    return replace(run, gate=gating.check_before_ask(run.workspace, quiet=run.quiet))


def _with_gate(request: "AskRequest", gate: gating.Gate) -> "AskRequest":
    return replace(request, no_cache=gate.full_prefill, content_hits=gate.content_hits)


def tell_failure(question: str, error: Exception, *, as_json: bool) -> None:
    """A question that could not be answered: on stderr, and as JSON on stdout, too."""
    fact, next_step = failures.describe(error)
    if as_json:
        console.write_json_line({"question": question, "error": fact, "next": next_step})
    console.fail(fact, next_step, as_json=as_json)


def decode(run: Answering, answer: "Answer") -> bool:
    """Decode to the end, or until Ctrl-C; whether it was to the end. A stream's text goes to stdout as it comes."""
    handle = run.workspace.handle
    try:
        if run.streams:
            for piece in handle.codec.stream_text(answer.tokens(handle.loaded)):
                console.write_text(piece)
        else:
            answer.drain(handle.loaded)
    except KeyboardInterrupt:
        _end_line(run)
        return False
    _end_line(run)
    return True


def _end_line(run: Answering) -> None:
    if run.streams:
        console.write("\n")


def keep(run: Answering, answer: "Answer", report: "AskReport") -> None:
    """Store what had to be computed, unless the store cannot be written."""
    from store import StoreFull

    from ..documents import Skipped
    from ..pipelines import finishing
    from ..pipelines.restoring import has_evicted
    from ..retrieval import SearchIndexError

    workspace, damaged = run.workspace, answer.stitched.damaged
    if workspace.store.readonly:
        console.warn(f"the store is read-only, so nothing was kept: {workspace.store.path}")
        return
    if damaged:
        console.warn(f"stored records were damaged and have not been used: {len(damaged)}")
    was_read = any(document.prepared is not None for document in answer.stitched.prompt.documents)
    if not run.quiet and (was_read or damaged or has_evicted(workspace, answer.stitched)):
        console.say("keeping what was computed, so that the next ask finds it")
    try:
        for event in finishing.write_back(workspace, answer.stitched):
            if isinstance(event, Skipped):
                console.warn(f"{event.reason}: {event.path}")
        _record(run, answer, report)
    except (StoreFull, SearchIndexError) as error:  # the answer is there all the same
        console.warn(f"nothing was kept of this ask, {error}")


def _record(run: Answering, answer: "Answer", report: "AskReport") -> None:
    from ..pipelines import finishing

    finishing.record_reference(run.workspace, report)
    if run.history:
        finishing.record_ask(run.workspace, report, answer.stitched)
    else:
        finishing.record_figures(run.workspace, report)


SHOWN: "Mapping[str, Callable[[AskReport], None]]" = {
    "full": ask_output.show_full,
    "line": ask_output.show_line,
    "none": ask_output.show_nothing,
}


def choose_show(mode: str, *, as_json: bool, is_one_of_many: bool) -> Show:
    """How reports are printed: JSON on stdout, a line for each of many questions; else for people, as ``mode`` says."""
    if as_json and is_one_of_many:
        return lambda request, report: console.write_json_line({"question": request.question, **report.to_json()})
    if as_json:
        return lambda _request, report: console.write_json(report.to_json())
    show = SHOWN[mode]
    return lambda _request, report: show(report)
