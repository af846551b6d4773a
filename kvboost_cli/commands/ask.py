"""``kvboost ask``: answer a question over stored documents, and tell where the time to first token went."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import console
from . import gating, options
from .pages import Page

if TYPE_CHECKING:
    from ..pipelines.workspace import Workspace
    from ..settings import Settings

STDIN = "-"


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
    document: options.Documents = None,
    top_k: options.TopK = None,
    order: options.Order = None,
    store: options.Store = None,
    model: options.Model = None,
    repair: options.Repair = None,
    ratio: options.Ratio = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Full prefill; the store is not used.", rich_help_panel=options.REPAIR)
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run full prefill, too, and compare.", rich_help_panel=options.REPAIR)
    ] = False,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    system: options.System = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    report: options.Report = None,
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
    options.check_repair(ratio, settings, no_cache=no_cache)
    questions, names = _read_questions(question, questions_from), options.check_names(document)
    with _opened(settings, names, no_cache) as workspace:
        workspace.handle.import_torch()
        from . import answering

        gate, is_many = _pass_gate(workspace, no_cache, quiet=quiet), questions_from is not None
        mode = "none" if quiet else settings.report
        show = answering.choose_show(mode, as_json=as_json, is_one_of_many=is_many)
        run = answering.Answering(
            workspace, gate, verify=verify, streams=not as_json, quiet=quiet, show=show, history=settings.history
        )
        requests = [answering.make_request(settings, text, names, seed, gate) for text in questions]
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


def _opened(settings: "Settings", names: Sequence[str], no_cache: bool) -> AbstractContextManager["Workspace"]:
    """The workspace; it is made for documents that are named, but not to be left empty by full prefill."""
    if no_cache and names:
        return options.borrow_workspace(settings)
    return options.open_workspace(settings, create=options.names_a_file(names))


def _pass_gate(workspace: "Workspace", no_cache: bool, *, quiet: bool) -> gating.Gate:
    """Load the model, and see whether its stored KV may be used; full prefill uses none."""
    _ = workspace.handle.loaded
    if no_cache:
        return gating.Gate(content_hits=False, full_prefill=True)
    return gating.check_before_ask(workspace, quiet=quiet)
