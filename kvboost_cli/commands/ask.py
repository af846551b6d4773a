"""``kvboost ask``: answer a question over stored documents, and tell where the time to first token went."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import console
from . import complete, gating, options
from .pages import Page

if TYPE_CHECKING:
    from ..pipelines.asking import AskRequest
    from ..pipelines.workspace import Workspace
    from ..settings import Settings

STDIN = "-"
DOCUMENTS, REPAIR, ANSWER = "Documents", "Reuse and repair", "Answer"
"""Groups of options in the help."""

MAX_SEED = 2**63 - 1
"""The largest that torch takes for sure."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("ask", cls=Page)(ask)


def ask(
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION|-", help="The question; - reads it from stdin.")
    ] = None,
    questions_from: Annotated[
        str | None,
        typer.Option("-f", "--questions-from", metavar="F|-", help="Read questions from a file, one per line."),
    ] = None,
    document: Annotated[
        list[str] | None,
        typer.Option(
            "-d",
            "--document",
            metavar="DOC",
            help="A document, by path or the end of its path; repeat in prompt order (see --order).",
            rich_help_panel=DOCUMENTS,
            autocompletion=complete.documents,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(metavar="N", help="Without -d: how many documents to search out.", rich_help_panel=DOCUMENTS),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="given|score|exact",
            help="The documents' order: as given or found, by BM25, or the one with most exact tokens first.",
            rich_help_panel=DOCUMENTS,
            autocompletion=complete.choices("given", "score", "exact"),
        ),
    ] = None,
    store: options.Store = None,
    model: options.Model = None,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="auto|none|selective|cacheblend|question",
            help="What to recompute.",
            rich_help_panel=REPAIR,
            autocompletion=complete.choices("auto", "none", "selective", "cacheblend", "question"),
        ),
    ] = None,
    ratio: Annotated[
        float | None, typer.Option(metavar="R", help="Share of reused tokens to recompute.", rich_help_panel=REPAIR)
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Full prefill; the store is not used.", rich_help_panel=REPAIR)
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run full prefill, too, and compare.", rich_help_panel=REPAIR)
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Longest answer, in tokens.", rich_help_panel=ANSWER)
    ] = None,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="0 is greedy.", rich_help_panel=ANSWER)] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=MAX_SEED, help="Seed for sampling, from 0.", rich_help_panel=ANSWER),
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The system message.", rich_help_panel=ANSWER)
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="full|line|none",
            help="How much to tell about the time to first token.",
            rich_help_panel=options.OUTPUT,
            autocompletion=complete.choices("full", "line", "none"),
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask a question over documents, in any order, reusing their stored KV cache.

    The answer alone goes to stdout; the report goes to stderr. Ctrl-C ends the answer.
    """
    settings = options.load(
        {
            "top_k": top_k, "order": order, "store": store, "model": model, "repair": repair, "ratio": ratio,
            "system": system, "max_tokens": max_tokens, "temperature": temperature, "device": device, "dtype": dtype,
            "report": report,
        }
    )  # fmt: skip
    if ratio is not None and (settings.repair == "none" or no_cache):
        raise typer.BadParameter("there is nothing to repair; leave --ratio out", param_hint="'--ratio'")
    questions, names = _read_questions(question, questions_from), _check_names(document or [])
    with _opened(settings, names, no_cache) as workspace:
        workspace.handle.import_torch()
        from . import answering

        gate, is_many = _pass_gate(workspace, no_cache, quiet=quiet), questions_from is not None
        mode = "none" if quiet else settings.report
        show = answering.choose_show(mode, as_json=as_json, is_one_of_many=is_many)
        run = answering.Answering(workspace, gate, verify, not as_json, quiet, show, settings.history)
        requests = [_request(settings, text, names, seed, gate) for text in questions]
        if not is_many:
            answering.answer_one(run, requests[0])
        elif answering.answer_all(run, requests, as_json=as_json):
            raise typer.Exit(3)


def _read_questions(question: str | None, source: str | None) -> list[str]:
    """The question, or one of each line, as text; bytes that are no UTF-8 become replacement characters."""
    from ..pipelines.errors import EmptyQuestion

    if (question is None) == (source is None):
        raise typer.BadParameter("give one question, or a file of questions with -f", param_hint="'QUESTION'")
    if source is not None:
        lines = _read_source(source).decode("utf-8", "replace").splitlines()
        questions = [line.strip() for line in lines if line.strip()]
        if not questions:
            raise EmptyQuestion(f"there is no question in: {source}")
        return questions
    data = _read_source(STDIN) if question == STDIN else os.fsencode(question or "")
    if not data.strip():  # told before torch is imported
        raise EmptyQuestion(f"the question is empty: {data.decode('utf-8', 'replace')!r}")
    return [data.decode("utf-8", "replace")]


def _read_source(source: str) -> bytes:
    if source == STDIN:
        if sys.stdin is not None and sys.stdin.isatty():
            console.say("type it, and end with Ctrl-D on a line of its own")
        return options.read_stdin()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{error.strerror}: {source}", param_hint="'-f'") from error


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
