"""Decoding and encoding, measured over a tiny model: the same work on both sides, figures for each."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from tiny_models import END_TOKEN, TinyModels

from kvboost_cli.bench.common import BenchModel, throwaway_workspace
from kvboost_cli.bench.decoding import (
    DecodeRequest,
    DecodeRun,
    StepTimes,
    make_decode_prompts,
    measure_cache,
    measure_steps,
    require_decode_room,
)
from kvboost_cli.bench.encoding import (
    EncodeRequest,
    EncodeRun,
    PassTimes,
    WholeTimes,
    make_encode_texts,
    measure_passes,
    measure_whole,
    prepare_pool,
)
from kvboost_cli.bench.errors import SizeTooLarge
from kvboost_cli.bench.sizes import parse_sizes
from kvboost_cli.model.codec import TextCodec
from kvboost_cli.model.forward import full_prefill
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.model.load import LoadedModel
from kvboost_cli.model.plain import time_generate, time_without_cache
from kvboost_cli.pipelines.workspace import Workspace


@pytest.fixture(scope="module")
def handle(bench_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelHandle:
    return ModelHandle("tiny", bench_model, "cpu", "float32", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def workspace(handle: ModelHandle) -> Iterator[Workspace]:
    with throwaway_workspace(BenchModel(cache(lambda _model, _dtype: handle), "tiny", "float32")) as workspace:
        yield workspace


@pytest.mark.parametrize("time_tokens", [time_generate, time_without_cache])
def test_every_token_has_its_instant_even_behind_an_end_token(tmp_path: Path, time_tokens: object) -> None:
    model = TinyModels(tmp_path).load("llama")
    with torch.no_grad():
        head = model.module.get_output_embeddings().weight
        head.zero_()
        head[END_TOKEN] = 1.0  # it and others: the model would end at once
    assert callable(time_tokens)
    instants = time_tokens(model, [5, 6, 7], 4)
    assert len(instants) == 4
    assert instants[0] > 0
    assert all(earlier < later for earlier, later in pairwise(instants))


def test_generate_goes_on_from_what_is_prefilled(tmp_path: Path) -> None:
    model = TinyModels(tmp_path).load("llama")
    _logits, prefilled = full_prefill(model, torch.tensor([[5, 6, 7, 8]]))
    prefilled.crop(-1)
    assert len(time_generate(model, [5, 6, 7, 8], 6, prefilled)) == 6
    assert prefilled.get_seq_length() == 4 + 6 - 1  # the last token is not run


def test_prompts_to_decode_behind_are_exactly_as_long_as_asked_for(bench_docs: Path, codec: TextCodec) -> None:
    prompts = make_decode_prompts(DecodeRequest(bench_docs, parse_sizes("40,1k"), 4, 2, 1), codec)
    assert [len(prompt) for prompt in (prompts.short, *prompts.sized)] == [250, 40, 1000]
    assert prompts.sized[1][:250] == prompts.short


def test_a_prompt_that_leaves_no_room_to_decode_is_refused(bench_docs: Path, handle: ModelHandle) -> None:
    require_decode_room(DecodeRequest(bench_docs, parse_sizes("4090"), 6, 2, 1), handle)
    with pytest.raises(SizeTooLarge, match=r"size 4090 and 7 tokens do not fit .* 4,096 tokens: 4,097 tokens"):
        require_decode_room(DecodeRequest(bench_docs, parse_sizes("4090"), 7, 2, 1), handle)


def test_decoding_is_measured_in_turns_of_which_the_first_warms_up(handle: ModelHandle) -> None:
    model: LoadedModel = handle.loaded
    times = list(measure_steps(model, range(10, 60), 5, 2))
    assert times[0] is None
    steps = [one for one in times if one is not None]
    assert [one.prompt_tokens for one in steps] == [50, 50]
    assert all(one.generate_s > 0 and one.kvboost_s > 0 for one in steps)
    cache_times = measure_cache(model, range(10, 60), 5)
    assert (cache_times.prompt_tokens, cache_times.tokens) == (50, 5)
    assert cache_times.ratio == cache_times.without_s / cache_times.with_s > 0


def test_the_ratio_of_decoders_is_the_median_of_each_turns_own() -> None:
    steps = (StepTimes(50, 1.0, 0.5), StepTimes(50, 3.0, 0.6), StepTimes(50, 2.0, 0.5), StepTimes(900, 9.0, 3.0))
    run = DecodeRun({"model": {}}, "/docs", 1, 3, 100, 1.0, True, None, steps)
    short, long = run.summaries
    assert (short.repeats, short.generate_s.value, short.kvboost_s.value, short.ratio.value) == (3, 2.0, 0.5, 4.0)
    assert (long.prompt_tokens, long.ratio.value) == (900, 3.0)
    facts = run.to_json()
    assert facts["cache"] is None
    assert facts["model"] == {}


def test_encoding_is_measured_pass_by_pass_and_as_a_whole(
    workspace: Workspace, bench_docs: Path, codec: TextCodec, tmp_path: Path
) -> None:
    request = EncodeRequest(bench_docs, repeats=2, seed=1)
    texts = make_encode_texts(request, codec)
    assert (len(texts.documents), len(texts.pool)) == (2, 8)
    assert all(1450 < len(codec.token_ids(text)) < 1550 for text in texts.documents)
    prepare_pool(workspace, tmp_path / "pool", texts.pool)
    times = list(measure_passes(workspace, texts.documents))
    assert times[0] is None
    passes = [one for one in times if one is not None]
    assert [one.tokens for one in passes] == [len(codec.token_ids(text)) for text in texts.documents]
    assert all(one.forward_s > 0 and one.context_s > 0 and (one.exact_s or 0) > 0 for one in passes)
    whole = measure_whole(workspace, tmp_path / "documents", texts.documents)
    assert whole.tokens == sum(one.tokens for one in passes)
    with workspace.store.snapshot() as snapshot:
        assert len(list(snapshot.document_names())) == 10


def test_rates_are_tokens_per_second_and_shares_of_the_plain_forward() -> None:
    passes = (PassTimes(1000, 1.0, 1.25, 2.0), PassTimes(1000, 1.0, 1.25, 2.0))
    run = EncodeRun({}, "/docs", 1, 2, 9.0, True, passes, WholeTimes(2000, 8.0))
    assert run.forward.tokens_per_s.value == 1000
    assert (run.context.tokens_per_s.value, run.context.ratio.value) == (800, 0.8)
    assert run.exact is not None
    assert run.exact.ratio.value == 0.5
    assert run.whole is not None
    assert (run.whole.tokens_per_s.value, run.whole.ratio.value) == (250, 0.25)


def test_an_interrupted_run_and_one_without_exact_kv_leave_rates_out() -> None:
    run = EncodeRun({}, "/docs", 1, 2, 9.0, False, (PassTimes(1000, 1.0, 1.25, None),), None)
    assert (run.exact, run.whole) == (None, None)
    assert run.to_json()["exact"] is None
