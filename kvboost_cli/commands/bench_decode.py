"""``kvboost bench kv-cache``: decoding with a KV cache and without, and kvboost's decoder."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .bench_common import Docs, Repeats, Seed, docs_folder, read_sizes, take_aloud, until_interrupted

if TYPE_CHECKING:
    from ..bench.decoding import CacheTimes, DecodePrompts, DecodeRequest, DecodeRun, StepTimes
    from ..model.load import LoadedModel
    from ..settings import Settings


def kv_cache(
    docs: Docs = None,
    sizes: Annotated[str, typer.Option(metavar="1k,7.5k,...", help="Prompt lengths, in tokens.")] = "1k,4k",
    tokens: Annotated[int, typer.Option(metavar="N", min=2, max=9999, help="How many tokens to decode.")] = 100,
    repeats: Repeats = 5,
    seed: Seed = 1,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Decode with a KV cache and without, and compare kvboost's decoder with transformers' generate.

    What is without a cache is measured once, behind a short prompt: it takes a pass of everything for each token.
    """
    from ..bench.decoding import DecodeRequest
    from . import bench_speed_output

    settings = options.load({"model": model, "device": device, "dtype": dtype})
    run = _run(settings, DecodeRequest(docs_folder(docs), read_sizes(sizes), tokens, repeats, seed), quiet=quiet)
    if run.cache is not None or run.steps:
        bench_speed_output.show_decoding(run, as_json=as_json, quiet=quiet)
    if not run.complete:
        raise KeyboardInterrupt


def _run(settings: "Settings", request: "DecodeRequest", *, quiet: bool) -> "DecodeRun":
    from ..bench.decoding import make_decode_prompts, make_run, require_decode_room

    started = perf_counter()
    handle = options.make_handle(settings, settings.model, settings.dtype)
    prompts = make_decode_prompts(request, handle.codec)
    require_decode_room(request, handle)
    cached: list[CacheTimes] = []
    steps: list[StepTimes] = []
    with until_interrupted() as interruption:
        _measure(handle.loaded, request, prompts, cached, steps, quiet=quiet)
    seconds = perf_counter() - started
    return make_run(handle, request, seconds, cached, steps, complete=not interruption.happened)


def _measure(
    model: "LoadedModel",
    request: "DecodeRequest",
    prompts: "DecodePrompts",
    cached: "list[CacheTimes]",
    steps: "list[StepTimes]",
    *,
    quiet: bool,
) -> None:
    from ..bench.decoding import measure_cache, measure_steps

    once = (measure_cache(model, prompt, request.num_tokens) for prompt in [prompts.short])
    take_aloud(once, 1, "without a cache", cached, quiet=quiet)
    for size, prompt in zip(request.sizes, prompts.sized, strict=True):
        times = measure_steps(model, prompt, request.num_tokens, request.repeats)
        take_aloud(times, request.repeats + 1, f"{size.name}, decoding", steps, quiet=quiet)
