"""``kvboost ask``: answer a question over stored documents, and tell where the time to first token went."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from . import gating, options

if TYPE_CHECKING:
    from ..pipelines.asking import Answer, AskRequest
    from ..pipelines.report import AskReport
    from ..pipelines.workspace import Workspace
    from ..settings import Settings

STDIN = "-"
MAX_SEED = 2**63 - 1
"""The largest that torch takes for sure."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("ask")(ask)


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION|-", help="The question; - reads it from stdin.")],
    document: Annotated[
        list[str] | None,
        typer.Option(
            "-d",
            "--document",
            metavar="DOC",
            help="A document, by path or the end of its path; repeat in prompt order (see --order).",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="N", help="Without -d: how many documents to search out.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="given|score|exact",
            help="The documents' order: as given or found, by BM25, or the one with most exact tokens first.",
        ),
    ] = None,
    store: options.Store = None,
    model: options.Model = None,
    repair: Annotated[
        str | None, typer.Option(metavar="auto|none|selective|cacheblend|question", help="What to recompute.")
    ] = None,
    ratio: Annotated[float | None, typer.Option(metavar="R", help="Share of reused tokens to recompute.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Full prefill; the store is not used.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Run full prefill, too, and compare.")] = False,
    max_tokens: Annotated[int | None, typer.Option(metavar="N", help="Longest answer, in tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="0 is greedy.")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=MAX_SEED, help="Seed for sampling, from 0.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system message.")] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask a question over documents, in any order, reusing their stored KV cache.

    The answer alone goes to stdout; the report goes to stderr.
    """
    settings = options.load(
        {
            "top_k": top_k, "order": order, "store": store, "model": model, "repair": repair, "ratio": ratio,
            "system": system, "max_tokens": max_tokens, "temperature": temperature, "device": device, "dtype": dtype,
        }
    )  # fmt: skip
    if ratio is not None and (settings.repair == "none" or no_cache):
        raise typer.BadParameter("there is nothing to repair; leave --ratio out", param_hint="'--ratio'")
    text, names = _read_question(question), _check_names(document or [])
    with _opened(settings, names, no_cache) as workspace:
        workspace.handle.import_torch()
        from ..pipelines import finishing
        from . import ask_output

        gate = _pass_gate(workspace, no_cache, quiet=quiet)
        request = _request(settings, text, names, seed, gate)
        answer = _answer(workspace, request, stream=not as_json)
        verification = finishing.verify_answer(workspace, answer) if verify else None
        report = finishing.make_report(workspace, request, answer, verification, gate_s=gate.check_s)
        ask_output.show(report, as_json=as_json, quiet=quiet)
        if not gate.full_prefill:
            _keep(workspace, answer, report, quiet=quiet)


def _read_question(question: str) -> str:
    """The question as text; bytes that are no UTF-8 become replacement characters."""
    from ..pipelines.errors import EmptyQuestion

    data = options.read_stdin() if question == STDIN else os.fsencode(question)
    if not data.strip():  # told before torch is imported
        raise EmptyQuestion(f"the question is empty: {data.decode()!r}")
    return data.decode("utf-8", "replace")


def _check_names(names: Sequence[str]) -> Sequence[str]:
    if not all(names):
        raise typer.BadParameter("a document's name is empty", param_hint="'-d'")
    return names


def _opened(settings: "Settings", names: Sequence[str], no_cache: bool) -> AbstractContextManager["Workspace"]:
    """The workspace; it is made for documents that are named, but not to be left empty by full prefill."""
    if no_cache and names:
        return options.borrow_workspace(settings)
    return options.open_workspace(settings, create=any(os.path.isfile(os.path.expanduser(name)) for name in names))


def _pass_gate(workspace: "Workspace", no_cache: bool, *, quiet: bool) -> gating.Gate:
    """Load the model, and see whether its stored KV may be used; full prefill uses none."""
    _ = workspace.handle.loaded
    if no_cache:
        return gating.Gate(content_hits=False, full_prefill=True)
    return gating.check_before_ask(workspace, quiet=quiet)


def _request(
    settings: "Settings", question: str, names: Sequence[str], seed: int | None, gate: gating.Gate
) -> "AskRequest":
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


def _answer(workspace: "Workspace", request: "AskRequest", *, stream: bool) -> "Answer":
    """Answer; with ``stream`` the text goes to stdout as it comes."""
    from .. import console
    from ..pipelines.asking import start_answer

    model = workspace.handle.loaded
    answer = start_answer(workspace, request)
    for reason in answer.passed_over:
        console.warn(f"passed over, {reason}")
    if not stream:
        answer.drain(model)
        return answer
    for piece in workspace.handle.codec.stream_text(answer.tokens(model)):
        console.write(piece)
    console.write("\n")
    return answer


def _keep(workspace: "Workspace", answer: "Answer", report: "AskReport", *, quiet: bool) -> None:
    """Store what had to be computed, unless the store cannot be written."""
    from store import StoreFull

    from .. import console
    from ..documents import Skipped
    from ..pipelines import finishing
    from ..pipelines.restoring import has_evicted

    if workspace.store.readonly:
        console.warn(f"the store is read-only, so nothing was kept: {workspace.store.path}")
        return
    if answer.stitched.damaged:
        console.warn(f"stored records were damaged and have not been used: {len(answer.stitched.damaged)}")
    was_read = any(document.prepared is not None for document in answer.stitched.prompt.documents)
    if not quiet and (was_read or answer.stitched.damaged or has_evicted(workspace, answer.stitched)):
        console.say("keeping what was computed, so that the next ask finds it")
    try:
        for event in finishing.write_back(workspace, answer.stitched):
            if isinstance(event, Skipped):
                console.warn(f"{event.reason}: {event.path}")
        finishing.record_ask(workspace, report, finishing.record_attention(answer.stitched))
    except StoreFull as error:  # the answer is there all the same
        console.warn(f"nothing was kept of this ask, {error}")
