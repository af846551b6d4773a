"""``kvboost bench``: measurements on the user's own documents, in stores that are thrown away."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, get_args, get_type_hints

import typer

from . import bench_decode, bench_encode, bench_eviction, bench_ttft, options
from .bench_common import bench_model, index_stand_aloud
from .pages import Page, Section

if TYPE_CHECKING:
    from ..bench.prompts import QualityRequest
    from ..bench.results import PromptResult, QualityRun
    from ..bench.stand import Stand
    from ..bench.variants import Variant
    from ..settings import Settings

NOT_WITH_FROM = {
    "docs", "model", "num_prompts", "seed", "tasks", "bits", "contexts", "num_documents", "passage_tokens", "variant",
    "order", "device", "dtype",
}  # fmt: skip
"""Options of a run, by parameter: a saved run has its own."""


def register(app: typer.Typer) -> None:
    """Add the group to ``app``."""
    group = typer.Typer(help="Measure on your own documents.", rich_markup_mode=None, cls=Section)
    group.command("quality", cls=Page)(quality)
    group.command("ttft", cls=Page)(bench_ttft.ttft)
    group.command("kv-cache", cls=Page)(bench_decode.kv_cache)
    group.command("index", cls=Page)(bench_encode.index)
    group.command("eviction", cls=Page)(bench_eviction.eviction)
    app.add_typer(group, name="bench")


def quality(
    context: typer.Context,
    docs: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the prompts' text comes from.")] = None,
    tasks: Annotated[
        str | None, typer.Option(metavar="fact,summary,...", help="Which tasks; all, if not given.")
    ] = None,
    num_prompts: Annotated[int, typer.Option("--n", metavar="N", min=1, max=999, help="Prompts per task.")] = 16,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Another seed, other prompts.")] = 1,
    num_documents: Annotated[
        int, typer.Option("--documents", metavar="N", min=2, max=32, help="Documents per prompt.")
    ] = 4,
    passage_tokens: Annotated[int, typer.Option(metavar="N", min=16, help="Tokens per document, about.")] = 300,
    order: Annotated[
        str, typer.Option(metavar="given|score|exact", help="The documents' order, as in `ask`.")
    ] = "given",
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="[alone/]STRATEGY[:RATIO]", help="What to compare, instead of the five; repeatable."),
    ] = None,
    model: options.Model = None,
    bits: Annotated[int | None, typer.Option(metavar="4|8|16", help="Bits per stored number.")] = None,
    contexts: Annotated[int | None, typer.Option(metavar="M", help="Contexts to average over.")] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the frontier: .png or .svg.")] = None,
    saved: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Show saved runs (--json) instead of a new one; repeatable."),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how close reused answers are to those of full prefill, on documents of your own.

    Made-up facts are put into passages of the documents; the model is asked for them, with and without reuse.
    """
    from ..bench.picture import require_picture
    from . import bench_output

    if plot is not None:
        require_picture(plot)
    if saved:
        _refuse_run_options(context)
        run = _read_runs(saved)
    elif docs is None:
        raise typer.BadParameter("name a folder of documents, or saved runs with --from", param_hint="'--docs'")
    else:
        from ..bench.prompts import QualityRequest

        settings = options.load(
            {"model": model, "bits": bits, "contexts": contexts, "device": device, "dtype": dtype, "order": order}
        )
        request = QualityRequest(
            docs.absolute(),
            num_prompts,
            seed,
            num_documents,
            passage_tokens,
            _tasks(tasks),
            _variants(variant, settings.order),
            settings.order,
        )
        run = _run(settings, request, quiet=quiet)
    bench_output.show(run, as_json=as_json, plot=plot, quiet=quiet)


def _refuse_run_options(context: typer.Context) -> None:
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in NOT_WITH_FROM and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter("a saved run has its own; leave it out with --from", param_hint=parameter.opts)


def _read_runs(paths: Sequence[Path]) -> "QualityRun":
    from ..bench.results import merge_runs, read_run

    return merge_runs([read_run(path) for path in paths])


def _tasks(text: str | None) -> tuple[str, ...]:
    from ..bench.tasks import TASKS, parse_tasks

    return tuple(TASKS) if text is None else parse_tasks(text)


def _variants(texts: list[str] | None, order: str) -> tuple["Variant", ...]:
    from ..bench.variants import DEFAULT_VARIANTS, parse_variants, require_one_order
    from ..settings import Settings

    strategies = get_args(get_type_hints(Settings)["repair"])
    variants = parse_variants(texts, strategies) if texts else DEFAULT_VARIANTS
    require_one_order(variants, order)
    return variants


def _run(settings: "Settings", request: "QualityRequest", *, quiet: bool) -> "QualityRun":
    """All tasks, one after the other, each in stores of its own."""
    from ..bench.prompts import make_all_prompts

    started = perf_counter()
    handle = options.make_handle(settings, settings.model, settings.dtype)
    prompts = make_all_prompts(request, handle.codec)  # what is wrong with them is told before torch is imported
    from ..bench.quality import make_setup, require_room
    from ..bench.results import QualityRun, RunFacts
    from ..bench.stand import open_stand

    require_room([prompt for made in prompts.values() for prompt in made], handle)
    bench = bench_model(settings, handle)
    results: list[PromptResult] = []
    for task in request.tasks:
        with open_stand(prompts[task], request.variants, bench, request.order) as stand:
            index_stand_aloud(stand, f"{task}, indexing", quiet=quiet)
            results.extend(_ask(stand, task, request.seed, warm_up=not results, quiet=quiet))
            setup = make_setup(stand, request)
    facts = RunFacts(str(request.docs), request.num_prompts, request.seed, request.tasks, perf_counter() - started)
    return QualityRun(setup, (facts,), tuple(results))


def _ask(stand: "Stand", task: str, seed: int, *, warm_up: bool, quiet: bool) -> Iterator["PromptResult"]:
    from .. import console
    from ..bench.quality import measure_stand
    from ..progress import StepProgress

    with console.step_progress(f"{task}, asking", quiet=quiet) as show:
        for done, result in enumerate(measure_stand(stand, seed, warm_up=warm_up), 1):
            show(StepProgress(done, len(stand.prompts), "prompts"))
            yield result
