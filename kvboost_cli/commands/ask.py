"""``kvboost ask``: answer a question over stored documents, and tell where the time to first token went."""

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from ..pipelines.asking import Answer, AskRequest
    from ..pipelines.report import AskReport
    from ..pipelines.workspace import Workspace

STDIN = "-"


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
            help="A document, by path or the end of its path; repeat in prompt order.",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="N", help="Without -d: how many documents to search out.")
    ] = None,
    store: options.Store = None,
    model: options.Model = None,
    repair: Annotated[str | None, typer.Option(metavar="auto|none|selective", help="What to recompute.")] = None,
    ratio: Annotated[float | None, typer.Option(metavar="R", help="Share of reused tokens to recompute.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Full prefill; the store is not used.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Run full prefill, too, and compare.")] = False,
    max_tokens: Annotated[int | None, typer.Option(metavar="N", help="Longest answer, in tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="0 is greedy.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed for sampling.")] = None,
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
            "top_k": top_k, "store": store, "model": model, "repair": repair, "ratio": ratio, "system": system,
            "max_tokens": max_tokens, "temperature": temperature, "device": device, "dtype": dtype,
        }
    )  # fmt: skip
    started = perf_counter()
    from ..pipelines import asking, finishing
    from . import ask_output

    import_s = perf_counter() - started
    request = asking.AskRequest(
        question=sys.stdin.read() if question == STDIN else question,
        documents=tuple(document or ()),
        top_k=settings.top_k,
        repair=settings.repair,
        ratio=settings.ratio,
        no_cache=no_cache,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=seed,
        system=settings.system,
    )
    with options.open_workspace(settings, create=bool(document)) as workspace:
        answer = _answer(workspace, request, stream=not as_json)
        verification = finishing.verify_answer(workspace, answer) if verify else None
        report = finishing.make_report(workspace, request, answer, verification, import_s)
        ask_output.show(report, as_json=as_json, quiet=quiet)
        if not no_cache:
            _keep(workspace, answer, report)


def _answer(workspace: "Workspace", request: "AskRequest", *, stream: bool) -> "Answer":
    """Load the model, then answer; with ``stream`` the text goes to stdout as it comes."""
    from .. import console
    from ..pipelines.asking import start_answer

    model = workspace.handle.loaded
    answer = start_answer(workspace, request)
    if not stream:
        answer.drain(model)
        return answer
    for piece in workspace.handle.codec.stream_text(answer.tokens(model)):
        console.write(piece)
    console.write("\n")
    return answer


def _keep(workspace: "Workspace", answer: "Answer", report: "AskReport") -> None:
    """Store what had to be computed, unless the store cannot be written."""
    from .. import console
    from ..pipelines import finishing

    if workspace.store.readonly:
        console.warn(f"the store is read-only, so nothing was kept: {workspace.store.path}")
        return
    for _event in finishing.write_back(workspace, answer.stitched):
        pass
    finishing.record_ask(workspace, report)
