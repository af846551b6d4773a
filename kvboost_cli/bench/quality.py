"""How close answers over stitched prompts are to those of full prefill, on the documents of any folder.

``prompts.make_all_prompts`` makes prompts, ``stand.open_stand`` and ``stand.index_stand`` store their documents by the
real pipeline, and ``measure_stand`` asks about them with each variant in turn. All times are those of ``ask``.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.codec import TextCodec
from ..model.handle import ModelHandle
from ..model.load import LoadedModel
from ..pipelines.asking import Answer, AskRequest, start_answer
from ..pipelines.finishing import make_report
from ..pipelines.plan import Hit
from ..pipelines.prompt import header_ids, tail_ids
from ..pipelines.report import AskReport
from ..pipelines.verify import Reference, measure_divergence, prefill_reference
from .common import describe_machine
from .errors import BenchPromptTooLong, DocumentsNotStored, NotFinite
from .prompts import QualityRequest
from .results import PromptResult, ReferenceResult, Setup, VariantResult
from .stand import Stand
from .tasks import TaskPrompt
from .variants import Variant


def require_room(prompts: Iterable[TaskPrompt], handle: ModelHandle) -> None:
    """Raise ``BenchPromptTooLong`` unless every prompt and its answer fit the model's context."""
    room = handle.loaded.geometry.max_positions
    for prompt in prompts:
        length = _count_tokens(prompt, handle.codec) + prompt.answer_tokens
        if length > room:
            raise BenchPromptTooLong(
                f"a prompt of the task {prompt.task} and its answer do not fit the model's context of {room:,} tokens: "
                f"{length:,} tokens"
            )


def _count_tokens(prompt: TaskPrompt, codec: TextCodec) -> int:
    frame = codec.frame(None)
    documents = sum(
        len(header_ids(codec, document.name)) + len(codec.token_ids(document.text)) for document in prompt.documents
    )
    return len(frame.preamble) + documents + len(tail_ids(codec, prompt.question, frame.closing))


def make_setup(stand: Stand, request: QualityRequest) -> Setup:
    """What has to be the same in two runs; the recipe is that of chunks with contexts, unless all are encoded alone."""
    workspace = stand.workspaces[min(stand.workspaces)]
    handle = workspace.handle
    return Setup(
        model={"name": handle.name, "device": str(handle.device), "dtype": handle.dtype},
        machine=describe_machine(),
        recipe=workspace.recipe.facts,
        num_documents=request.num_documents,
        passage_tokens=request.passage_tokens,
        order=request.order,
        variants=tuple(variant.name for variant in stand.variants),
    )


def measure_stand(stand: Stand, seed: int, *, warm_up: bool) -> Iterator[PromptResult]:
    """Ask every prompt with every variant; its documents have to be indexed. ``seed`` is that of the prompts.

    The variants take turns in going first, so that drift of the machine hits all. ``warm_up`` asks the first prompt
    once before: a process's first times hold what happens once.
    """
    if warm_up:
        _measure_prompt(stand, 0, seed)
    for number in range(len(stand.prompts)):
        yield _measure_prompt(stand, number, seed)


def _measure_prompt(stand: Stand, number: int, seed: int) -> PromptResult:
    prompt, turn = stand.prompts[number], number % len(stand.variants)
    reference: Reference | None = None
    results: dict[Variant, VariantResult] = {}
    for variant in (*stand.variants[turn:], *stand.variants[:turn]):
        asked = _ask(stand, number, variant)
        if reference is None:
            reference = prefill_reference(asked.model, asked.prompt_ids, prompt.answer_tokens)
        results[variant] = _compare(asked, reference, prompt, variant)
    assert reference is not None, "a stand has variants"
    answer = stand.codec.text(reference.token_ids)
    return PromptResult(
        task=prompt.task,
        seed=seed,
        number=number,
        prompt_tokens=len(asked.prompt_ids),
        documents=tuple(Path(document.path).name for document in asked.report.documents),
        question=prompt.question,
        expected=prompt.expected,
        reference=ReferenceResult(prompt.is_right(answer), reference.ttft_s, answer),
        variants=tuple(results[variant] for variant in stand.variants),
    )


@dataclass(frozen=True)
class Asked:
    """An answer, decoded to its end, and its report."""

    model: LoadedModel
    answer: Answer
    report: AskReport

    @property
    def prompt_ids(self) -> list[int]:
        """The whole prompt."""
        return self.answer.stitched.prompt.token_ids


def _ask(stand: Stand, number: int, variant: Variant) -> Asked:
    """Ask as the command does. Raises ``DocumentsNotStored``."""
    workspace = stand.workspaces[variant.alone]
    model = workspace.handle.loaded
    request = _ask_request(stand.prompts[number], stand.paths(number), variant, stand.order)
    answer = start_answer(workspace, request)
    answer.drain(model)
    report = make_report(workspace, request, answer, None)
    for document in report.documents:
        if document.hit == Hit.MISS.value:
            raise DocumentsNotStored(f"a document of the benchmark has no stored KV: {document.path}")
    return Asked(model, answer, report)


def _compare(asked: Asked, reference: Reference, prompt: TaskPrompt, variant: Variant) -> VariantResult:
    """The stitched cache against full prefill; the answer behind the prompt is overwritten in both.

    Raises ``NotFinite``.
    """
    stitched, report = asked.answer.stitched, asked.report
    divergence = measure_divergence(
        asked.model, reference, stitched.kv, stitched.logits, len(asked.prompt_ids), prompt.answer_tokens
    )
    kl_mean = sum(divergence.kl) / len(divergence.kl)
    if not math.isfinite(kl_mean):
        raise NotFinite(f"with the variant {variant.name} the KL of a prompt is no finite number: {kl_mean}")
    return VariantResult(
        variant=variant.name,
        kl_mean=kl_mean,
        kl_first=divergence.kl[0],
        top1_agreement=sum(divergence.agrees) / len(divergence.agrees),
        right=prompt.is_right(report.answer),
        repaired_tokens=report.tokens.repaired,
        repair_s=report.phases.get("repair_s", 0.0),
        ttft_s=report.ttft_s,
        answer=report.answer,
    )


def _ask_request(prompt: TaskPrompt, paths: Sequence[str], variant: Variant, order: str) -> AskRequest:
    return AskRequest(
        question=prompt.question,
        documents=paths,
        top_k=len(paths),
        repair=variant.repair,
        ratio=variant.ratio,
        max_tokens=prompt.answer_tokens,
        order=order,
    )
