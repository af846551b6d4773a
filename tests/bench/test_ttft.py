"""Prompts of given sizes, asked with each strategy in turn with full prefill: a tiny model, real stores."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kvboost_cli.bench.common import BenchModel
from kvboost_cli.bench.errors import DocumentsNotStored, SizeTooLarge, TooFewPassages
from kvboost_cli.bench.sizes import parse_sizes
from kvboost_cli.bench.speed_prompts import SpeedPrompts, TTFTRequest, default_folder, make_speed_prompts
from kvboost_cli.bench.stand import Stand, index_stand, open_stand
from kvboost_cli.bench.ttft import measure_course, ordered_paths, require_context
from kvboost_cli.bench.ttft_results import PromptTimes
from kvboost_cli.bench.variants import Variant
from kvboost_cli.model.codec import TextCodec
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.report import PHASES

STRATEGIES = ("selective", "none", "question")


@pytest.fixture(scope="module")
def request_two(bench_docs: Path) -> TTFTRequest:
    return TTFTRequest(bench_docs, parse_sizes("400,1.1k"), STRATEGIES, repeats=3, seed=1)


@pytest.fixture(scope="module")
def prompts(request_two: TTFTRequest, codec: TextCodec) -> SpeedPrompts:
    return make_speed_prompts(request_two, codec)


@pytest.fixture(scope="module")
def handle(bench_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelHandle:
    return ModelHandle("tiny", bench_model, "cpu", "float32", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def stand(prompts: SpeedPrompts, handle: ModelHandle) -> Iterator[Stand]:
    bench = BenchModel(cache(lambda _model, _dtype: handle), "tiny", "float32")
    with open_stand([prompts.shelf], [Variant("none")], bench) as stand:
        yield stand


@pytest.fixture(scope="module")
def measured(stand: Stand, prompts: SpeedPrompts) -> list[list[PromptTimes | None]]:
    list(index_stand(stand))
    return [list(measure_course(stand, course, STRATEGIES)) for course in prompts.courses]


def test_prompts_have_about_the_size_that_was_asked_for(measured: list[list[PromptTimes | None]]) -> None:
    for nominal, course in zip((400, 1100), measured, strict=True):
        assert all(abs(one.prompt_tokens - nominal) <= 170 for one in course if one is not None)


def test_every_prompt_but_the_one_that_warms_up_has_an_order_of_its_own(
    measured: list[list[PromptTimes | None]], prompts: SpeedPrompts
) -> None:
    for course, times in zip(prompts.courses, measured, strict=True):
        assert times[0] is None
        kept = [one for one in times if one is not None]
        assert [one.number for one in kept] == [1, 2, 3]
        assert len({one.documents for one in kept}) == 3
        names = [tuple(prompts.documents[index].name for index in order) for order in course.orders]
        assert [one.documents for one in kept] == names[1:]


def test_every_strategy_is_in_the_order_asked_for_with_all_phases(measured: list[list[PromptTimes | None]]) -> None:
    for one in (one for course in measured for one in course if one is not None):
        assert tuple(ask.strategy for ask in one.asks) == STRATEGIES
        assert one.full_prefill_s > 0
        for ask in one.asks:
            assert tuple(ask.phases) == PHASES
            assert 0 < sum(ask.phases.values()) <= ask.ttft_s
            assert ask.phases["encode_missing_s"] == 0


def test_the_floor_counts_the_tokens_that_are_computed_and_the_bytes_that_are_read(
    measured: list[list[PromptTimes | None]], stand: Stand
) -> None:
    prompt = measured[1][-1]
    assert prompt is not None
    selective, none, _question = prompt.asks
    num_content = len(prompt.documents) - 1
    assert none.repaired_tokens == 0
    assert selective.repaired_tokens > 8 * num_content  # their header lines, too; the first document is exact
    assert selective.floor.repair_tokens == selective.repaired_tokens
    assert none.floor.repair_tokens == 0
    assert none.floor.tail_tokens == selective.floor.tail_tokens > 0
    assert none.floor.load_bytes == selective.floor.load_bytes
    stored_tokens = prompt.prompt_tokens - none.floor.repair_tokens - none.floor.tail_tokens
    with stand.workspaces[False].store.snapshot() as snapshot:
        entry = snapshot.document(stand.paths(0)[0])
        assert entry is not None
        header = snapshot.header(entry.chunk_keys[0])
    assert header is not None
    bytes_per_token = sum(header.layer_bytes) / header.num_tokens
    assert none.floor.load_bytes == pytest.approx(stored_tokens * bytes_per_token, rel=0.1)
    assert none.floor.total_s > 0
    assert none.floor.together_s > 0


def test_documents_without_kv_are_no_silent_misses(prompts: SpeedPrompts, handle: ModelHandle) -> None:
    bench = BenchModel(cache(lambda _model, _dtype: handle), "tiny", "float32")
    with (
        open_stand([prompts.shelf], [Variant("none")], bench) as stand,
        pytest.raises(DocumentsNotStored, match=f"has no stored KV: {ordered_paths(stand, prompts.courses[0], 0)[0]}"),
    ):
        next(measure_course(stand, prompts.courses[0], STRATEGIES))


def test_a_folder_with_too_few_documents_is_told_how_many_are_needed(
    request_two: TTFTRequest, codec: TextCodec
) -> None:
    with pytest.raises(TooFewPassages, match="give 18 passages of 300 tokens, and 19 are needed: "):
        make_speed_prompts(replace(request_two, sizes=parse_sizes("6k")), codec)
    with pytest.raises(TooFewPassages, match="and 31 are needed: "):  # each prompt has another document
        make_speed_prompts(replace(request_two, sizes=parse_sizes("300"), repeats=30), codec)


def test_a_size_beyond_the_models_context_is_refused(
    request_two: TTFTRequest, codec: TextCodec, handle: ModelHandle
) -> None:
    sized = (replace(request_two, sizes=parse_sizes(text)) for text in ("3k", "4.1k"))
    fits, too_large = (make_speed_prompts(request, codec) for request in sized)
    require_context(fits.courses, handle)
    with pytest.raises(SizeTooLarge, match=r"of the size 4.1k .* do not fit the model's context of 4,096 tokens: 4,"):
        require_context(too_large.courses, handle)


def test_there_is_text_on_every_machine(codec: TextCodec) -> None:
    request = TTFTRequest(default_folder(), parse_sizes("16k"), STRATEGIES, 5, 1)
    assert len(make_speed_prompts(request, codec).documents) > 40
