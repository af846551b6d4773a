"""A conversation: each turn's logits are those of full prefill of the same token ids, and the counts are true."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import Desk, ask_request, hit_kinds, make_text, reference_logits
from test_turns import WITHOUT_THOUGHTS
from tiny_models import TinyModels, save_tiny, save_tokenizer
from torch import Tensor

from kvboost_cli.model import forward
from kvboost_cli.pipelines import live as live_module
from kvboost_cli.pipelines.asking import AskRequest
from kvboost_cli.pipelines.conversation import Conversation
from kvboost_cli.pipelines.errors import ConversationTooLong, DocumentGone, EmptyQuestion
from kvboost_cli.pipelines.finishing import write_back
from kvboost_cli.pipelines.plan import Hit
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


@pytest.fixture
def two(desk: Desk) -> tuple[Desk, Path, Path]:
    """Two documents, one of them not stored, none exact: all stored KV has to be recomputed."""
    desk.exact = False
    stored, unknown = desk.write("a.md", make_text(1, 2)), desk.write("b.md", make_text(2, 1))
    desk.index(stored)
    return desk, stored, unknown


def test_every_turn_is_full_prefill_of_the_templates_conversation(two: tuple[Desk, Path, Path]) -> None:
    desk, *paths = two
    texts = [path.read_text() for path in paths]
    with desk.workspace() as workspace:
        conversation, answers = with_documents(workspace, *paths), []
        for question in QUESTIONS:
            started, logits, conversation = take_turn(workspace, conversation, request(question, **REPAIR_ALL))
            ids = started.answer.stitched.prompt.token_ids
            assert ids == naive_ids(workspace, ["a.md", "b.md"], texts, answers)
            torch.testing.assert_close(logits, reference_logits(workspace, ids), **TOLERANCE)
            assert started.notice is None
            answers.append(started.answer.token_ids)
    assert [turn.report.tokens.live_documents > 0 for turn in conversation.turns] == [False, True, True]


def test_an_exact_document_stays_full_prefills_over_turns(desk: Desk) -> None:
    """Alone it needs no repair. At 16 bits, since what is stored in fewer is off by half a step."""
    desk.bits = 16
    path = desk.write("a.md", make_text(1, 2))
    desk.index()
    with desk.workspace() as workspace:
        conversation = with_documents(workspace, path)
        for question in QUESTIONS:
            started, logits, conversation = take_turn(workspace, conversation, request(question))
            expected = reference_logits(workspace, started.answer.stitched.prompt.token_ids)
            torch.testing.assert_close(logits, expected, **TOLERANCE)
    assert conversation.turns[0].report.tokens.exact > 300


def test_a_later_turn_computes_nothing_but_what_is_new(
    two: tuple[Desk, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, *paths = two
    computed: list[range] = []

    def watched(model: object, token_ids: Tensor, positions: range, kv: object) -> Tensor:
        computed.append(positions)
        return forward.forward_tokens(model, token_ids, positions, kv)  # type: ignore[arg-type]

    monkeypatch.setattr(live_module, "forward_tokens", watched)
    with desk.workspace() as workspace:
        first, _, conversation = take_turn(workspace, with_documents(workspace, *paths), request(QUESTIONS[0]))
        assert computed == []
        second, _, conversation = take_turn(workspace, conversation, request(QUESTIONS[1]))
    prompt = first.answer.stitched.plan.num_tokens
    kept = prompt + len(first.answer.token_ids) - 1
    assert computed == [range(kept, second.answer.stitched.plan.num_tokens)]
    tokens = conversation.turns[1].report.tokens
    assert tokens.live_documents == first.answer.stitched.plan.tail_start
    assert tokens.live_documents + tokens.live_turns == kept
    assert (tokens.exact, tokens.reused, tokens.repaired) == (0, 0, 0)
    assert tokens.live_documents + tokens.live_turns + tokens.prefilled == tokens.prompt
    assert conversation.turns[1].report.strategy == "none"
    assert set(conversation.turns[1].report.phases) == {"tokenize_s", "lookup_s", "first_token_s"}


@pytest.mark.parametrize("num_decoded", [1, 3])
def test_an_answer_that_was_broken_off_is_kept_as_far_as_it_went(
    two: tuple[Desk, Path, Path], num_decoded: int
) -> None:
    desk, *paths = two
    texts = [path.read_text() for path in paths]
    with desk.workspace() as workspace:
        asked = request(QUESTIONS[0], **REPAIR_ALL)
        _, _, conversation = take_turn(workspace, with_documents(workspace, *paths), asked, num_decoded)
        broken = conversation.turns[0]
        assert (broken.report.finish_reason, len(broken.answer_ids)) == ("interrupted", num_decoded)
        started, logits, _ = take_turn(workspace, conversation, request(QUESTIONS[1]))
        ids = started.answer.stitched.prompt.token_ids
        assert ids == naive_ids(workspace, ["a.md", "b.md"], texts, [broken.answer_ids])
        torch.testing.assert_close(logits, reference_logits(workspace, ids), **TOLERANCE)


def test_a_turn_that_never_began_leaves_the_conversation_usable(
    two: tuple[Desk, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, *paths = two

    def interrupted(*_args: object) -> Tensor:
        raise KeyboardInterrupt

    with desk.workspace() as workspace:
        _, _, conversation = take_turn(
            workspace, with_documents(workspace, *paths), request(QUESTIONS[0], **REPAIR_ALL)
        )
        with monkeypatch.context() as patched:
            patched.setattr(live_module, "forward_tokens", interrupted)
            with pytest.raises(KeyboardInterrupt):
                start_turn(workspace, request("Never to be answered?"), conversation)
        started, logits, _ = take_turn(workspace, conversation, request(QUESTIONS[1]))
        expected = reference_logits(workspace, started.answer.stitched.prompt.token_ids)
        torch.testing.assert_close(logits, expected, **TOLERANCE)
        assert started.num_live > 0


def test_other_documents_are_stitched_anew_with_all_turns_behind_them(two: tuple[Desk, Path, Path]) -> None:
    desk, stored, unknown = two
    with desk.workspace() as workspace:
        _, _, conversation = take_turn(workspace, with_documents(workspace, stored), request(QUESTIONS[0]))
        answers = [conversation.turns[0].answer_ids]
        conversation = conversation.with_documents(fetch_documents(workspace, [str(unknown), str(stored)]))
        assert conversation.live is None
        asked = request(QUESTIONS[1], **REPAIR_ALL)
        started, logits, conversation = take_turn(workspace, conversation, asked)
        ids = started.answer.stitched.prompt.token_ids
        texts = [unknown.read_text(), stored.read_text()]
        assert ids == naive_ids(workspace, ["b.md", "a.md"], texts, answers)
        torch.testing.assert_close(logits, reference_logits(workspace, ids), **TOLERANCE)
        assert hit_kinds(started.answer.stitched) == [{Hit.MISS}, {Hit.CONTENT}]
        tokens = conversation.turns[1].report.tokens
        assert (tokens.live_documents, tokens.live_turns) == (0, 0)
        list(write_back(workspace, started.answer.stitched))
        again = replace(conversation, live=None)
        started, _, _ = take_turn(workspace, again, request(QUESTIONS[2]))
        assert hit_kinds(started.answer.stitched) == [{Hit.CONTENT}, {Hit.CONTENT}]


def test_the_search_chooses_for_the_first_question_and_until_the_conversation_starts_over(desk: Desk) -> None:
    desk.write("a.md", "The river of the valley is the Lantern.\n")
    desk.write("b.md", "Copper comes from the harbour.\n")
    desk.index()
    with desk.workspace() as workspace:
        _, _, conversation = take_turn(workspace, Conversation(), request("Which river is it?", top_k=1))
        assert [document.title for document in conversation.documents] == ["a.md"]
        started, _, conversation = take_turn(workspace, conversation, request("Where does copper come from?", top_k=1))
        assert started.num_live > 0
        assert conversation.is_searched
        fresh = conversation.start_over()
        assert (fresh.turns, fresh.documents) == ((), ())
        _, _, other = take_turn(workspace, fresh, request("Where does copper come from?", top_k=1))
        assert [document.title for document in other.documents] == ["b.md"]
        named = other.with_documents(conversation.documents).start_over()
        assert [document.title for document in named.documents] == ["a.md"]


def test_an_excerpt_keeps_its_places_and_a_changed_document_is_read_again(desk: Desk) -> None:
    long = desk.write("long.md", make_text(1, 12) + "\nThe password is zebra.\n")
    desk.index()
    with desk.workspace() as workspace:
        _, _, conversation = take_turn(workspace, Conversation(), request("What is the zebra password?"))
        taken = conversation.documents[0]
        assert len(taken.chunks) < taken.num_chunks
        reordered = conversation.with_documents(conversation.documents)
        _, _, again = take_turn(workspace, reordered, request("And why?"))
        assert [chunk.place for chunk in again.documents[0].chunks] == [chunk.place for chunk in taken.chunks]
        long.write_text("The password is okapi.\n")
        started, _, _ = take_turn(workspace, again.with_documents(again.documents), request("And now?"))
        assert workspace.handle.codec.token_ids("okapi")[0] in started.answer.stitched.prompt.token_ids
        long.unlink()
        with pytest.raises(DocumentGone):
            start_turn(workspace, request("And now?"), conversation.with_documents(conversation.documents))


def test_longrope_is_computed_anew_where_its_factors_change(tiny_models: TinyModels, tmp_path: Path) -> None:
    desk = Desk(tmp_path, tiny_models.path("phi3"), bits=16, contexts=0)
    path = desk.write("a.md", make_text(1, 1))
    with desk.workspace() as workspace:
        conversation, lengths = with_documents(workspace, path), []
        for _ in range(3):
            asked = request("Which river " * 8, **REPAIR_ALL)
            started, logits, conversation = take_turn(workspace, conversation, asked)
            ids = started.answer.stitched.prompt.token_ids
            torch.testing.assert_close(logits, reference_logits(workspace, ids), **TOLERANCE)
            lengths.append((len(ids) > 256, started.notice is None))
    assert lengths == [(False, True), (True, False), (True, True)]


def test_a_template_that_leaves_thoughts_out_has_the_rest_computed_again(tmp_path: Path) -> None:
    """As if the answer had been more than the template keeps of it."""
    model = save_tiny("llama", tmp_path / "model")
    save_tokenizer(model, WITHOUT_THOUGHTS)
    (tmp_path / "desk").mkdir()
    desk = Desk(tmp_path / "desk", model, bits=16)
    path = desk.write("a.md", make_text(1, 1))
    with desk.workspace() as workspace:
        first, _, conversation = take_turn(workspace, with_documents(workspace, path), request(QUESTIONS[0]))
        thinking = replace(conversation.turns[0], answer="<think>80?</think>\n\nPort 80.")
        conversation = replace(conversation, turns=(thinking,))
        started, logits, _ = take_turn(workspace, conversation, request(QUESTIONS[1]))
        ids = started.answer.stitched.prompt.token_ids
        assert ids == naive_ids(workspace, ["a.md"], [path.read_text()], [workspace.handle.codec.token_ids("Port 80.")])
        torch.testing.assert_close(logits, reference_logits(workspace, ids), **TOLERANCE)
    assert started.notice is not None
    assert "in another way" in started.notice
    assert started.num_live == first.answer.stitched.plan.num_tokens


def test_full_prefill_keeps_nothing_alive(two: tuple[Desk, Path, Path]) -> None:
    desk, *paths = two
    with desk.workspace() as workspace:
        conversation = with_documents(workspace, *paths)
        for question in QUESTIONS[:2]:
            started, logits, conversation = take_turn(workspace, conversation, request(question, no_cache=True))
            expected = reference_logits(workspace, started.answer.stitched.prompt.token_ids, "sdpa")
            torch.testing.assert_close(logits, expected, **TOLERANCE)
            assert (started.num_live, conversation.live) == (0, None)


def test_a_conversation_that_outgrows_the_context_is_told_and_can_go_on(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1, 20))
    other = desk.write("b.md", "river\n")
    with desk.workspace() as workspace:
        _, _, conversation = take_turn(workspace, with_documents(workspace, path), request(QUESTIONS[0]))
        long = "ladder harbour " * 600
        with pytest.raises(ConversationTooLong, match="does not fit the model's context of 4,096 tokens; documents"):
            start_turn(workspace, request(long), conversation)
        again = conversation.with_documents(fetch_documents(workspace, [str(path), str(other)]))
        with pytest.raises(ConversationTooLong):
            start_turn(workspace, request(long), again)
        started, _, _ = take_turn(workspace, conversation, request(QUESTIONS[1]))
        assert started.num_live > 0
        with pytest.raises(EmptyQuestion):
            start_turn(workspace, request(" \n"), conversation)
