"""From a folder to the prompts whose time to first token is measured. Needs a tokenizer, and no torch."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from sysconfig import get_path

from ..model.codec import TextCodec
from ..pipelines.prompt import header_ids, tail_ids
from .passages import Passage, PassageWish, cut_passages, find_sources
from .sizes import PromptSize, count_documents, count_needed, draw_orders
from .tasks import TaskDocument, TaskPrompt

QUESTION = "Summarize what the second document says in one sentence."
ANSWER_TOKENS = 32
"""Room that is left for an answer."""

PASSAGE_TOKENS = 300
TITLE = "000-passage.md"
"""About as long as the titles are."""


@dataclass(frozen=True)
class TTFTRequest:
    """Which prompts to make of which folder, and the repair strategies to ask them with."""

    docs: Path
    sizes: tuple[PromptSize, ...]
    strategies: tuple[str, ...]
    repeats: int
    seed: int


@dataclass(frozen=True)
class Course:
    """The prompts of one size: which documents, by number, in which order; no two are the same.

    ``longest_tokens`` bounds their lengths.
    """

    size: PromptSize
    orders: tuple[tuple[int, ...], ...]
    longest_tokens: int


@dataclass(frozen=True)
class SpeedPrompts:
    """All documents, and a course of prompts over them for each size."""

    documents: tuple[TaskDocument, ...]
    courses: tuple[Course, ...]

    @cached_property
    def shelf(self) -> TaskPrompt:
        """All documents as one prompt, which is how a stand takes them."""
        return TaskPrompt("ttft", self.documents, QUESTION, (), ANSWER_TOKENS)


def default_folder() -> Path:
    """Text that is on every machine: the sources of Python's own ``asyncio``."""
    return Path(get_path("stdlib")) / "asyncio"


def make_speed_prompts(request: TTFTRequest, codec: TextCodec) -> SpeedPrompts:
    """Prompts of each size, one more than ``repeats``: the first is to warm up.

    Raises ``PathNotFound``, ``TooFewPassages``.
    """
    frame = codec.frame(None)
    frame_tokens = len(frame.preamble) + len(tail_ids(codec, QUESTION, frame.closing))
    document_tokens = PASSAGE_TOKENS + len(header_ids(codec, TITLE))
    num_orders = request.repeats + 1
    counts = [count_documents(size.num_tokens, frame_tokens, document_tokens) for size in request.sizes]
    needed = max(count_needed(count, num_orders) for count in counts)
    passages = cut_texts(request.docs, codec, needed, request.seed)
    lengths = sorted((_count_tokens(passage, codec) for passage in passages), reverse=True)
    courses = (
        Course(
            size,
            draw_orders(needed, count, num_orders, f"{request.seed}/{count}"),
            frame_tokens + sum(lengths[:count]),
        )
        for size, count in zip(request.sizes, counts, strict=True)
    )
    return SpeedPrompts(tuple(TaskDocument(passage.name, passage.text) for passage in passages), tuple(courses))


def cut_texts(docs: Path, codec: TextCodec, count: int, seed: int) -> list[Passage]:
    """Exactly ``count`` passages of a folder's documents. Raises ``PathNotFound``, ``TooFewPassages``."""
    return cut_passages(find_sources(docs), PassageWish(count, count, PASSAGE_TOKENS, seed), codec, docs)


def _count_tokens(passage: Passage, codec: TextCodec) -> int:
    return len(header_ids(codec, passage.name)) + len(codec.token_ids(passage.text))
