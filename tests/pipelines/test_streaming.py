"""Stored layers that arrive behind the pass, through a real store: the same prompt as when all is there before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import torch
from samples import Desk, ask_request, make_text
from tiny_models import TinyModels
from torch import Tensor

from kvboost_cli.kv import placing
from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.model.load import LoadedModel
from kvboost_cli.model.streams import streaming
from kvboost_cli.pipelines.asking import Stitched, start_answer
from kvboost_cli.pipelines.repairing import REPAIRS
from kvboost_cli.pipelines.repairs.task import RepairTask
from kvboost_cli.pipelines.stitch import StoredChunk
from kvboost_cli.pipelines.streaming import MakePlacer, StoredPrompt, choose_placer, has_kernel, stream_stored
from kvboost_cli.pipelines.workspace import Workspace
from store import DamagedRecord

NAMES = ("a.md", "b.md")


@contextmanager
def asked(desk: Desk, repair: str) -> Iterator[tuple[Workspace, Stitched]]:
    """Two indexed documents, and a prompt of them as it is stitched without streams."""
    for seed, name in enumerate(NAMES):
        desk.write(name, make_text(seed))
    desk.index()
    with desk.workspace() as workspace:
        yield workspace, start_answer(workspace, ask_request(*reversed(NAMES), repair=repair)).stitched


def empty_cache(model: LoadedModel, num_tokens: int, capacity: int | None = None) -> ScatterCache:
    """A cache that holds no number for the first tokens until one is written; behind them it is finite, as always."""
    kv = ScatterCache(model.geometry, capacity or num_tokens, model.dtype, model.device)
    for layer in kv.buffers:
        layer.keys[:, :, :num_tokens] = torch.nan
        layer.values[:, :, :num_tokens] = torch.nan
    return kv


def stored_prompt(stitched: Stitched) -> StoredPrompt:
    found, plan = stitched.found, stitched.plan
    assert found.preamble is not None
    pairs = zip(plan.chunks, found.chunks, strict=True)
    chunks = [StoredChunk(placed, record.key, record.header) for placed, record in pairs if record is not None]
    return StoredPrompt((found.preamble_key, found.preamble), chunks, plan.num_tokens)


def streamed_logits(workspace: Workspace, stitched: Stitched, repair: str, make: MakePlacer) -> Tensor:
    model = workspace.handle.loaded
    kv = empty_cache(model, stitched.plan.num_tokens, stitched.kv.capacity)
    with workspace.store.snapshot() as snapshot:
        stored = stored_prompt(stitched)
        with stream_stored(snapshot, stored, model, workspace.recipe, kv, make):
            task = RepairTask(model, stitched.prompt.token_ids, stitched.plan, kv, None)
            return REPAIRS[repair](task).logits


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("repair", ["none", "question", "cacheblend"])
def test_a_pass_over_layers_that_still_arrive_gives_the_same_logits(desk: Desk, repair: str, bits: int) -> None:
    desk.bits = bits
    with asked(desk, repair) as (workspace, stitched):
        logits = streamed_logits(workspace, stitched, repair, placing.make_placer)
    assert torch.equal(logits, stitched.logits)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernel is compiled, and this desk is on the CPU")
def test_the_kernel_fills_the_cache_as_plain_torch_does(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for GPUs")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    from kvboost_cli.kv import fused

    with asked(desk, "selective") as (workspace, stitched):
        logits = streamed_logits(workspace, stitched, "selective", fused.make_placer)
    # multiply and add may be contracted: fp32 roundings, through two layers
    torch.testing.assert_close(logits, stitched.logits, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("repair", ["none", "question", "cacheblend"])
def test_a_gpu_answers_as_the_cpu_does(desk: Desk, repair: str) -> None:
    with asked(desk, repair) as (_workspace, on_cpu):
        pass
    desk.handles = {"float32": ModelHandle("tiny", desk.model_dir, "cuda", "float32", desk.root / "cache")}
    with desk.workspace() as workspace:
        on_gpu = start_answer(workspace, ask_request(*reversed(NAMES), repair=repair)).stitched
    assert on_gpu.plan == on_cpu.plan
    torch.testing.assert_close(on_gpu.logits.cpu(), on_cpu.logits, atol=1e-3, rtol=1e-3)  # sums in another order


def test_a_damaged_layer_ends_the_pass_that_meets_it(desk: Desk) -> None:
    with asked(desk, "none") as (workspace, stitched):
        record = stitched.found.chunks[-1]
        assert record is not None
        database = "positions" if record.header.positional else "chunks"
    desk.damage(record.key, layer=1, database=database)
    with desk.workspace() as workspace, pytest.raises(DamagedRecord, match="layer 1"):
        streamed_logits(workspace, stitched, "none", placing.make_placer)


def test_without_a_pass_all_layers_are_there_at_the_end(desk: Desk) -> None:
    with asked(desk, "none") as (workspace, stitched), workspace.store.snapshot() as snapshot:
        model, stored = workspace.handle.loaded, stored_prompt(stitched)
        kv = empty_cache(model, stitched.plan.num_tokens)
        with stream_stored(snapshot, stored, model, workspace.recipe, kv, choose_placer(model.device)):
            pass
        places = [place for chunk in stored.chunks for place in chunk.positions]
        for layer in range(model.geometry.num_layers):
            for mine, theirs in zip(kv.layer_kv(layer), stitched.kv.layer_kv(layer), strict=True):
                assert torch.equal(mine[:, :, places], theirs[:, :, places])


def test_nothing_stored_is_nothing_to_wait_for(desk: Desk) -> None:
    with asked(desk, "none") as (workspace, _stitched), workspace.store.snapshot() as snapshot:
        model = workspace.handle.loaded
        kv = empty_cache(model, 4)
        with stream_stored(
            snapshot, StoredPrompt(None, (), 4), model, workspace.recipe, kv, choose_placer(model.device)
        ):
            assert kv.layer_kv(1)[0].isnan().all()


def test_a_layer_is_read_only_as_far_ahead_as_the_pass_lets_it(tiny_models: TinyModels) -> None:
    """A touched layer is waited for, and one that nobody has touched need not be there."""
    model = tiny_models.load("llama")
    kv = empty_cache(model, 4)
    may_go_on = threading.Event()

    def read(layer: int, target: Tensor) -> None:
        assert layer == 0 or may_go_on.wait(60)
        target.fill_(layer + 1)

    def place(staged: Tensor, keys: Tensor, values: Tensor) -> None:
        keys.fill_(float(staged[0]))
        values.fill_(float(staged[0]))

    with streaming(kv, 16, read, place):
        assert bool((kv.layer_kv(0)[0] == 1).all())
        assert bool(kv.buffers[1].keys.isnan().all())
        may_go_on.set()
        assert bool((kv.layer_kv(1)[0] == 2).all())


def test_an_error_within_leaves_no_thread_and_no_wait_behind(tiny_models: TinyModels) -> None:
    model = tiny_models.load("llama")
    kv = empty_cache(model, 4)

    def read(_layer: int, target: Tensor) -> None:
        target.zero_()

    def place(_staged: Tensor, keys: Tensor, values: Tensor) -> None:
        keys.zero_()
        values.zero_()

    with pytest.raises(RuntimeError, match="the pass failed"), streaming(kv, 16, read, place):
        raise RuntimeError("the pass failed")
    assert all(layer.arrival is None for layer in kv.buffers)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kvboost-layers")]


def test_a_gpu_takes_the_kernel_if_triton_is_there() -> None:
    assert has_kernel(torch.device("cuda")) == (find_spec("triton") is not None)


def test_a_cpu_takes_plain_torch() -> None:
    assert not has_kernel(torch.device("cpu"))
    assert choose_placer(torch.device("cpu")) is placing.make_placer
