"""A whole run over a small folder through the real pipelines, with a tiny model in fp32 and unquantized stores."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from tiny_models import CONFIGS, make_model, save_tokenizer

from kvboost_cli.bench.common import BenchModel
from kvboost_cli.bench.errors import BenchPromptTooLong, DocumentsNotStored, NotFinite, TooFewPassages
from kvboost_cli.bench.prompts import QualityRequest, make_all_prompts
from kvboost_cli.bench.quality import make_setup, measure_stand, require_room
from kvboost_cli.bench.results import PromptResult
from kvboost_cli.bench.stand import index_stand, open_stand
from kvboost_cli.bench.tasks import TaskPrompt
from kvboost_cli.bench.variants import BASELINE, Variant
from kvboost_cli.model.handle import ModelHandle

EXACT = 1e-6
"""What fp32 leaves of the KL when every token was computed again; measured: below 1e-9."""

REPAIR_ALL = Variant("selective", 1.0)
REPAIR_ALL_ALONE = replace(REPAIR_ALL, alone=True)
VARIANTS = (BASELINE, Variant("none"), REPAIR_ALL, REPAIR_ALL_ALONE, Variant("question"))


@pytest.fixture(scope="module")
def bench(bench_model: Path, tmp_path_factory: pytest.TempPathFactory) -> BenchModel:
    cache_dir = tmp_path_factory.mktemp("cache")

    @cache
    def make_handle(_model: str | None, dtype: str) -> ModelHandle:
        return ModelHandle("tiny", bench_model, "cpu", dtype, cache_dir)

    return BenchModel(make_handle, str(bench_model), "float32", bits=16)


@pytest.fixture(scope="module")
def request_two(bench_docs: Path) -> QualityRequest:
    return QualityRequest(bench_docs, 2, 1, 3, 100, ("fact", "summary"), VARIANTS)


def prompts_of(request: QualityRequest, bench: BenchModel) -> dict[str, list[TaskPrompt]]:
    """Prompts that are known to fit, as the command makes them."""
    handle = bench.make_handle(bench.model, bench.dtype)
    prompts = make_all_prompts(request, handle.codec)
    require_room([prompt for made in prompts.values() for prompt in made], handle)
    return prompts


def run(request: QualityRequest, bench: BenchModel, task: str, *, warm_up: bool = False) -> list[PromptResult]:
    prompts = prompts_of(request, bench)
    with open_stand(prompts[task], request.variants, bench) as stand:
        assert len(list(index_stand(stand))) == stand.num_to_index
        return list(measure_stand(stand, request.seed, warm_up=warm_up))


@pytest.fixture(scope="module")
def measured(request_two: QualityRequest, bench: BenchModel) -> list[PromptResult]:
    return run(request_two, bench, "fact", warm_up=True)


def test_every_prompt_has_every_variant_in_the_order_asked_for(measured: list[PromptResult]) -> None:
    assert [prompt.number for prompt in measured] == [0, 1]
    for prompt in measured:
        assert [result.variant for result in prompt.variants] == [variant.name for variant in VARIANTS]
        assert all(result.ttft_s > 0 for result in prompt.variants)
        assert prompt.reference.ttft_s > 0
        assert len(prompt.documents) == 3


@pytest.mark.parametrize("variant", [REPAIR_ALL, REPAIR_ALL_ALONE])
def test_repairing_everything_is_full_prefill(measured: list[PromptResult], variant: Variant) -> None:
    for prompt in measured:
        (result,) = [result for result in prompt.variants if result.variant == variant.name]
        assert result.kl_mean < EXACT
        assert result.kl_first < EXACT
        assert result.top1_agreement == 1.0
        assert result.answer == prompt.reference.answer
        assert result.right == prompt.reference.right


def test_without_repair_there_is_a_difference_and_nothing_is_repaired(measured: list[PromptResult]) -> None:
    for prompt in measured:
        baseline, none, everything, everything_alone, _question = prompt.variants
        assert none.kl_mean > 100 * EXACT
        assert (none.repaired_tokens, none.repair_s) == (0, 0.0)
        assert 0 < baseline.repaired_tokens < everything.repaired_tokens <= everything_alone.repaired_tokens
        assert everything_alone.repaired_tokens == pytest.approx(
            3 * 130, abs=60
        )  # headers and the fact's sentence on top
        assert baseline.repair_s > 0


def test_a_seed_gives_the_same_figures_again(
    measured: list[PromptResult], request_two: QualityRequest, bench: BenchModel
) -> None:
    def timeless(results: list[PromptResult]) -> list[PromptResult]:
        return [
            replace(
                prompt,
                reference=replace(prompt.reference, ttft_s=0.0),
                variants=tuple(replace(result, repair_s=0.0, ttft_s=0.0) for result in prompt.variants),
            )
            for prompt in results
        ]

    assert timeless(run(request_two, bench, "fact")) == timeless(measured)


def test_a_task_without_a_right_answer_has_none(request_two: QualityRequest, bench: BenchModel) -> None:
    fewer = replace(request_two, num_prompts=1, variants=(Variant("none"),))
    (prompt,) = run(fewer, bench, "summary")
    assert prompt.expected == ()
    assert (prompt.reference.right, prompt.variants[0].right) == (None, None)


def test_the_setup_tells_the_recipe_of_documents_with_contexts(request_two: QualityRequest, bench: BenchModel) -> None:
    prompts = prompts_of(request_two, bench)
    with open_stand(prompts["fact"], VARIANTS, bench) as stand:
        setup = make_setup(stand, request_two)
        folder = stand.folder
        assert {alone: workspace.recipe.contexts for alone, workspace in stand.workspaces.items()} == {
            False: 2,
            True: 0,
        }
    assert (setup.recipe["bits"], setup.recipe["contexts"]) == (16, 2)
    assert setup.model == {"name": "tiny", "device": "cpu", "dtype": "float32"}
    assert not folder.exists()


def test_with_order_exact_the_longest_document_stands_first(request_two: QualityRequest, bench: BenchModel) -> None:
    request = replace(request_two, num_prompts=2, variants=(Variant("none"), REPAIR_ALL), order="exact")
    prompts = prompts_of(request, bench)["fact"]
    with open_stand(prompts, request.variants, bench, request.order) as stand:
        assert list(index_stand(stand))
        results = list(measure_stand(stand, request.seed, warm_up=False))
        codec = stand.codec
    for prompt, result in zip(prompts, results, strict=True):
        lengths = {document.name: len(codec.token_ids(document.text)) for document in prompt.documents}
        longest = max(lengths, key=lengths.__getitem__)
        given = [document.name for document in prompt.documents]
        assert list(result.documents) == [longest, *(name for name in given if name != longest)]
        assert result.variants[1].kl_mean < EXACT


def test_only_stores_that_a_variant_needs_are_made(request_two: QualityRequest, bench: BenchModel) -> None:
    prompts = prompts_of(request_two, bench)
    with open_stand(prompts["fact"], [Variant("none")], bench) as stand:
        assert list(stand.workspaces) == [False]


def test_documents_that_are_not_indexed_are_no_silent_misses(request_two: QualityRequest, bench: BenchModel) -> None:
    prompts = prompts_of(request_two, bench)
    with open_stand(prompts["fact"], [Variant("none")], bench) as stand:
        with pytest.raises(DocumentsNotStored):
            list(measure_stand(stand, 1, warm_up=False))
        Path(stand.paths(0)[0]).write_bytes(b"\0\0")
        with pytest.raises(DocumentsNotStored, match="a binary file"):
            list(index_stand(stand))


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"num_documents": 20, "passage_tokens": 300}, TooFewPassages, "give 18 passages of 300 tokens"),
        ({"num_documents": 6, "passage_tokens": 700}, BenchPromptTooLong, "context of 4,096 tokens: "),
    ],
)
def test_what_cannot_be_asked_is_told_before_anything_is_indexed(
    request_two: QualityRequest, bench: BenchModel, changes: dict[str, int], error: type[Exception], told: str
) -> None:
    make: Callable[..., QualityRequest] = replace
    with pytest.raises(error, match=told):
        prompts_of(make(request_two, **changes), bench)


def test_a_model_whose_logits_are_no_finite_numbers_gives_no_figures(
    request_two: QualityRequest, tmp_path: Path
) -> None:
    module = make_model(CONFIGS["llama"]())
    with torch.no_grad():
        module.get_output_embeddings().weight.fill_(torch.inf)
    module.save_pretrained(tmp_path / "broken")
    save_tokenizer(tmp_path / "broken")
    handle = ModelHandle("broken", tmp_path / "broken", "cpu", "float32", tmp_path)
    broken = BenchModel(lambda _model, _dtype: handle, "broken", "float32")
    with pytest.raises(NotFinite, match="with the variant none the KL of a prompt is no finite number: nan"):
        run(replace(request_two, num_prompts=1, variants=(Variant("none"),)), broken, "fact")


def test_code_comes_from_source_files_if_there_are_any(
    tmp_path: Path, bench_docs: Path, request_two: QualityRequest, bench: BenchModel
) -> None:
    for number, path in enumerate(sorted(bench_docs.iterdir())):
        (tmp_path / f"{path.stem}{'.py' if number % 2 else '.md'}").write_text(path.read_text())
    request = replace(request_two, docs=tmp_path, num_prompts=1, tasks=("code", "fact"))
    prompts = prompts_of(request, bench)
    suffixes = {task: {Path(document.name).suffix for document in prompts[task][0].documents} for task in prompts}
    assert suffixes["code"] == {".py"}
    assert ".md" in suffixes["fact"]
