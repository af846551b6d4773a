"""From a folder to the prompts of a run. Needs a tokenizer, and no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..documents import SourceFile
from ..model.codec import TextCodec
from .passages import Passage, PassageWish, cut_passages, find_sources, is_source_code
from .tasks import CODE_TASKS, TaskPrompt, make_prompts
from .variants import Variant


@dataclass(frozen=True)
class QualityRequest:
    """Which prompts to make of which folder, and what to compare.

    Each task has ``num_prompts`` prompts of ``num_documents`` passages of about ``passage_tokens`` tokens. ``order`` is
    a name of ``pipelines.ordering``.
    """

    docs: Path
    num_prompts: int
    seed: int
    num_documents: int
    passage_tokens: int
    tasks: tuple[str, ...]
    variants: tuple[Variant, ...]
    order: str = "given"


def make_all_prompts(request: QualityRequest, codec: TextCodec) -> dict[str, list[TaskPrompt]]:
    """The prompts of each task over the folder's documents; those about code over source files, if it has any.

    Raises ``PathNotFound``, ``TooFewPassages``.
    """
    sources = find_sources(request.docs)
    code = [source for source in sources if is_source_code(source)] or sources
    pools: dict[bool, list[Passage]] = {}
    prompts = {}
    for task in request.tasks:
        about_code = task in CODE_TASKS
        if about_code not in pools:
            pools[about_code] = _cut(request, code if about_code else sources, codec)
        prompts[task] = make_prompts(task, pools[about_code], request.num_prompts, request.num_documents, request.seed)
    return prompts


def _cut(request: QualityRequest, sources: Sequence[SourceFile], codec: TextCodec) -> list[Passage]:
    wish = PassageWish(
        count=request.num_prompts * request.num_documents,
        needed=request.num_documents,
        num_tokens=request.passage_tokens,
        seed=request.seed,
    )
    return cut_passages(sources, wish, codec, request.docs)
