"""The documents of a conversation: stitched anew when they change, chosen by the search, and when all is too long."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import Desk, hit_kinds, make_text, reference_logits
from talks import QUESTIONS, REPAIR_ALL, TOLERANCE, naive_ids, request, take_turn, with_documents

from kvboost_cli.pipelines.conversation import Conversation
from kvboost_cli.pipelines.errors import ConversationTooLong, DocumentGone, EmptyQuestion
from kvboost_cli.pipelines.finishing import write_back
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.talked_about import fetch_documents
from kvboost_cli.pipelines.talking import start_turn


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
