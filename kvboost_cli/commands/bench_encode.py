"""``kvboost bench index``: how fast documents are encoded, against the plain forward pass."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from . import options
from .bench_common import Bits, Contexts, Docs, Repeats, Seed, bench_model, docs_folder, take_aloud, until_interrupted

if TYPE_CHECKING:
    from ..bench.encoding import EncodeRequest, EncodeRun, EncodeTexts, PassTimes, WholeTimes
    from ..pipelines.workspace import Workspace
    from ..settings import Settings


def index(
    docs: Docs = None,
    repeats: Repeats = 5,
    seed: Seed = 1,
    model: options.Model = None,
    bits: Bits = None,
    contexts: Contexts = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how fast documents are encoded, in turn with the plain forward pass of as many tokens."""
    from ..bench.encoding import EncodeRequest
    from . import bench_speed_output

    settings = options.load({"model": model, "bits": bits, "contexts": contexts, "device": device, "dtype": dtype})
    run = _run(settings, EncodeRequest(docs_folder(docs), repeats, seed), quiet=quiet)
    if run.passes:
        bench_speed_output.show_encoding(run, as_json=as_json, quiet=quiet)
    if not run.complete:
        raise KeyboardInterrupt


def _run(settings: "Settings", request: "EncodeRequest", *, quiet: bool) -> "EncodeRun":
    from ..bench.encoding import make_encode_texts, make_run

    started = perf_counter()
    handle = options.make_handle(settings, settings.model, settings.dtype)
    texts = make_encode_texts(request, handle.codec)
    from ..bench.common import throwaway_workspace

    passes: list[PassTimes] = []
    whole: list[WholeTimes] = []
    with (
        TemporaryDirectory(prefix="kvboost-bench-") as folder,
        throwaway_workspace(bench_model(settings, handle)) as workspace,
    ):
        with until_interrupted() as interruption:
            _measure(workspace, Path(folder), texts, passes, whole, quiet=quiet)
        seconds = perf_counter() - started
        return make_run(workspace, request, seconds, passes, whole, complete=not interruption.happened)


def _measure(
    workspace: "Workspace",
    folder: Path,
    texts: "EncodeTexts",
    passes: "list[PassTimes]",
    whole: "list[WholeTimes]",
    *,
    quiet: bool,
) -> None:
    from ..bench.encoding import measure_passes, measure_whole, prepare_pool

    prepare_pool(workspace, folder / "pool", texts.pool)
    times = measure_passes(workspace, texts.documents)
    take_aloud(times, len(texts.documents) + 1, "passes", passes, quiet=quiet)
    once = (measure_whole(workspace, folder / name, texts.documents) for name in ["documents"])
    take_aloud(once, 1, "indexing", whole, quiet=quiet)
