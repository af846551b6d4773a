"""Conversations in tests: a turn as the command takes it, and a naive way to a prompt."""

from collections.abc import Sequence
from pathlib import Path

from samples import ask_request
from torch import Tensor

from kvboost_cli.pipelines.asking import AskRequest
from kvboost_cli.pipelines.conversation import Conversation
from kvboost_cli.pipelines.talked_about import fetch_documents
from kvboost_cli.pipelines.talking import StartedTurn, finish_turn, start_turn
from kvboost_cli.pipelines.workspace import Workspace

# fp32 in another order of sums
TOLERANCE = {"atol": 5e-4, "rtol": 0}
QUESTIONS = ("Which river is it?", "And which ladder?", "Where is the harbour?")
REPAIR_ALL = {"repair": "selective", "ratio": 1.0}
IM_START, IM_END = 1, 2


def request(question: str, **changes: object) -> AskRequest:
    return ask_request(question=question, **changes)


def take_turn(
    workspace: Workspace, conversation: Conversation, asked: AskRequest, num_decoded: int | None = None
) -> tuple[StartedTurn, Tensor, Conversation]:
    """A turn as the command takes it, its first logits, and the conversation after it."""
    started = start_turn(workspace, asked, conversation)
    logits = started.answer.stitched.logits.clone()
    for count, _token in enumerate(started.answer.tokens(workspace.handle.loaded), 1):
        if count == num_decoded:
            break
    broken_off = None if num_decoded is None else "interrupted"
    return started, logits, finish_turn(workspace, asked, started, broken_off)


def with_documents(workspace: Workspace, *paths: Path) -> Conversation:
    return Conversation().with_documents(fetch_documents(workspace, list(map(str, paths))))


def naive_ids(
    workspace: Workspace, titles: Sequence[str], texts: Sequence[str], answers: Sequence[Sequence[int]]
) -> list[int]:
    """A conversation in ChatML, put together from its parts as one would by hand."""

    def ids(text: str) -> list[int]:
        return list(workspace.handle.codec.token_ids(text))

    opening = [IM_START, *ids("assistant\n")]
    prompt = [IM_START, *ids("user\n")]
    for title, text in zip(titles, texts, strict=True):
        prompt += [*ids(f"\n\nDocument {title}\n\n"), *ids(text)]
    prompt += [*ids(f"\n\nQuestion: {QUESTIONS[0]}"), IM_END, *ids("\n"), *opening]
    for answer, question in zip(answers, QUESTIONS[1:], strict=False):
        prompt += [*answer, IM_END, *ids("\n"), IM_START, *ids("user\n"), *ids(question), IM_END, *ids("\n"), *opening]
    return prompt
