"""``kvboost bench ttft``: time to first token against full prefill, and against its floor."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, get_args, get_type_hints

import typer

from . import options
from .bench_common import (
    Bits,
    Contexts,
    Docs,
    Repeats,
    Seed,
    bench_model,
    docs_folder,
    index_stand_aloud,
    read_sizes,
    take_aloud,
    until_interrupted,
)

if TYPE_CHECKING:
    from ..bench.memory import MemoryUse
    from ..bench.speed_prompts import Course, TTFTRequest
    from ..bench.stand import Stand
    from ..bench.ttft_results import PromptTimes, TTFTRun
    from ..settings import Settings


def ttft(
    docs: Docs = None,
    sizes: Annotated[str, typer.Option(metavar="1k,7.5k,...", help="Prompt lengths, in tokens.")] = "1k,2k,4k",
    strategies: Annotated[
        str, typer.Option(metavar="none,auto,...", help="Repair strategies.")
    ] = "none,selective,cacheblend,auto",
    repeats: Repeats = 5,
    seed: Seed = 1,
    memory: Annotated[bool, typer.Option("--memory", help="Measure the peak memory of an ask, too.")] = False,
    model: options.Model = None,
    bits: Bits = None,
    contexts: Contexts = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw TTFT against length: .png or .svg.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the time to first token, in turn with full prefill, and how far it is from its floor.

    Each prompt has its documents in an order of its own. An interrupted run shows what it has measured.
    """
    from ..bench.picture import require_picture
    from ..bench.speed_prompts import TTFTRequest
    from . import bench_speed_output

    if plot is not None:
        require_picture(plot)
    settings = options.load({"model": model, "bits": bits, "contexts": contexts, "device": device, "dtype": dtype})
    request = TTFTRequest(docs_folder(docs), read_sizes(sizes), _read_strategies(strategies), repeats, seed)
    run = _run(settings, request, memory=memory, quiet=quiet)
    if run.prompts:
        bench_speed_output.show_ttft(run, as_json=as_json, plot=plot, quiet=quiet)
    if not run.complete:
        raise KeyboardInterrupt


def _read_strategies(text: str) -> tuple[str, ...]:
    from ..bench.errors import UnknownStrategy
    from ..settings import Settings

    known = get_args(get_type_hints(Settings)["repair"])
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise UnknownStrategy(f"the strategies are {', '.join(known)}, and not: {name!r}")
    return names


def _run(settings: "Settings", request: "TTFTRequest", *, memory: bool, quiet: bool) -> "TTFTRun":
    from ..bench.speed_prompts import make_speed_prompts

    started = perf_counter()
    handle = options.make_handle(settings, settings.model, settings.dtype)
    prompts = make_speed_prompts(request, handle.codec)  # what is wrong with them is told before torch is imported
    from ..bench.stand import open_stand
    from ..bench.ttft import make_run, require_context
    from ..bench.variants import Variant

    require_context(prompts.courses, handle)
    used: list[MemoryUse] = []
    measured: list[PromptTimes] = []
    with open_stand([prompts.shelf], [Variant("none")], bench_model(settings, handle)) as stand:
        with until_interrupted() as interruption:
            index_stand_aloud(stand, "indexing", quiet=quiet)
            if memory:
                _watch(stand, prompts.courses, request, settings.device, used, quiet=quiet)
            _measure(stand, prompts.courses, request.strategies, measured, quiet=quiet)
        seconds = perf_counter() - started
        return make_run(stand, request, seconds, used, measured, complete=not interruption.happened)


def _watch(
    stand: "Stand",
    courses: "Sequence[Course]",
    request: "TTFTRequest",
    device: str,
    used: "list[MemoryUse]",
    *,
    quiet: bool,
) -> None:
    """Peak memory of the first prompt of each size."""
    from ..bench.memory import WatchedAsk, measure_memory
    from ..bench.ttft import WITH_CONTEXTS, ordered_paths

    workspace = stand.workspaces[WITH_CONTEXTS]
    asks = ((course.size.name, WatchedAsk(workspace, ordered_paths(stand, course, 0), device)) for course in courses)
    measured = (measure_memory(name, asked, request.strategies) for name, asked in asks)
    take_aloud(measured, len(courses), "memory", used, quiet=quiet)


def _measure(
    stand: "Stand",
    courses: "Sequence[Course]",
    strategies: Sequence[str],
    measured: "list[PromptTimes]",
    *,
    quiet: bool,
) -> None:
    from ..bench.ttft import measure_course

    for course in courses:
        times = measure_course(stand, course, strategies)
        take_aloud(times, len(course.orders), f"{course.size.name}, asking", measured, quiet=quiet)
