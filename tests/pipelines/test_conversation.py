"""A conversation: each turn's logits are those of full prefill of the same token ids, and the counts are true."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import Desk, make_text, reference_logits
from talks import QUESTIONS, REPAIR_ALL, TOLERANCE, naive_ids, request, take_turn, with_documents
from test_turns import WITHOUT_THOUGHTS
from tiny_models import TinyModels, save_tiny, save_tokenizer
from torch import Tensor

from kvboost_cli.model import forward
from kvboost_cli.pipelines import live as live_module
from kvboost_cli.pipelines.talking import start_turn


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
