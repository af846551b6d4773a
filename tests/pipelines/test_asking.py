"""The ask flow with a tiny model in fp32: exactness against plain transformers, hits and misses, and the account."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import Desk, ask_and_keep, ask_request, first_logits, make_text, reference_logits

from kvboost_cli.documents import document_from_text
from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.errors import (
    AmbiguousDocument,
    DocumentNotFound,
    EmptyQuestion,
    NothingFound,
    PromptTooLong,
)
from kvboost_cli.pipelines.finishing import make_report
from kvboost_cli.pipelines.lookup import find_stored
from kvboost_cli.pipelines.plan import Hit, PlacedChunk
from store import ChunkHeader, StoreNotFound

# fp32 in another order of sums, logits of about 6
TOLERANCE = {"atol": 1e-4, "rtol": 0}


def hits(chunks: Iterable[PlacedChunk]) -> set[Hit]:
    return {chunk.hit for chunk in chunks}


def stored_headers(desk: Desk, path: Path) -> list[ChunkHeader | None]:
    """Checksums of all layers among the facts."""
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        entry = snapshot.document(str(path))
        return [snapshot.header(key) for key in entry.chunk_keys] if entry else []


@pytest.mark.parametrize(("bits", "contexts"), [(16, 0), (8, 2), (4, 1)])
def test_one_document_with_all_its_tokens_repaired_gives_full_prefills_logits(
    desk: Desk, bits: int, contexts: int
) -> None:
    desk.bits, desk.contexts, desk.exact = bits, contexts, False
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        answer = start_answer(workspace, ask_request(path, repair="selective", ratio=1.0))
        stitched = answer.stitched
        assert hits(stitched.plan.chunks) == {Hit.CONTENT}
        assert stitched.num_repaired == len(stitched.plan.positions_with(Hit.CONTENT)) > 300
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


def test_unrepaired_reuse_is_near_full_prefill_and_no_guess(desk: Desk) -> None:
    """Random models attend to everything, so the bound is loose: stored KV beats that of another document."""
    desk.bits = 16
    paths = [desk.write(name, make_text(seed)) for seed, name in enumerate(("a.md", "b.md"))]
    desk.index()
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(*paths)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
        other = first_logits(workspace, ask_request(*reversed(paths), no_cache=True))
    assert (stitched.logits - expected).abs().mean() < 0.5 * (other - expected).abs().mean()


def test_an_ask_without_any_store_computes_everything_exactly(desk: Desk) -> None:
    paths = [desk.write(name, make_text(seed)) for seed, name in enumerate(("a.md", "b.md"))]
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(*paths, repair="auto")).stitched
        assert hits(stitched.plan.chunks) == {Hit.MISS}
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


@pytest.mark.parametrize("system", [None, "You are terse."])
def test_without_cache_the_logits_are_full_prefills_own(desk: Desk, system: str | None) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        answer = start_answer(workspace, ask_request(path, no_cache=True, system=system))
        expected = reference_logits(workspace, answer.stitched.prompt.token_ids)
        torch.testing.assert_close(answer.stitched.logits, expected, **TOLERANCE)
        answer.drain(workspace.handle.loaded)
        report = make_report(workspace, ask_request(path, no_cache=True), answer, None)
    assert report.tokens.prefilled == report.tokens.prompt
    assert (report.strategy, report.documents[0].hit) == ("none", "miss")


def test_misses_are_written_back_and_hit_the_next_time(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    with desk.workspace() as workspace:
        first = ask_and_keep(workspace, ask_request(path))
        assert hits(first.stitched.plan.chunks) == {Hit.MISS}
        again = ask_and_keep(workspace, ask_request(path))
        assert hits(again.stitched.plan.chunks) == {Hit.EXACT}
        assert again.stitched.plan.preamble_hit is Hit.EXACT
        assert list(workspace.search.document_hashes()) == [str(path)]
    assert desk.names() == ["a.md"]
    assert desk.index()[0].changes["unchanged"] == 1


def test_write_back_stores_what_an_index_would(desk: Desk, tmp_path: Path) -> None:
    path = desk.write("a.md", make_text(1))
    with desk.workspace() as workspace:
        ask_and_keep(workspace, ask_request(path))
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other", desk.model_dir)
    other.index(path)
    assert stored_headers(desk, path) == stored_headers(other, path) != []


def test_a_file_that_changed_since_it_was_indexed_is_not_served_stale(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    desk.write("a.md", make_text(2, num_paragraphs=3))
    with desk.workspace() as workspace:
        stitched = ask_and_keep(workspace, ask_request(path)).stitched
        assert hits(stitched.plan.chunks) == {Hit.MISS}
        text_ids = [token for chunk in stitched.prompt.chunks for token in chunk.token_ids]
        assert tuple(text_ids) == workspace.handle.codec.token_ids(make_text(2, num_paragraphs=3))
        expected = reference_logits(workspace, stitched.prompt.token_ids)
        torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)
        assert hits(start_answer(workspace, ask_request(path)).stitched.plan.chunks) == {Hit.EXACT}


def test_a_file_that_is_gone_is_told(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    path.unlink()
    with desk.workspace() as workspace, pytest.raises(DocumentNotFound, match=f"cannot be read any more .*: {path}$"):
        start_answer(workspace, ask_request("a.md"))


def test_a_record_of_other_token_ids_is_no_hit(desk: Desk) -> None:
    """As if two chunks had one key."""
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        prompt = start_answer(workspace, ask_request(path)).stitched.prompt
        first = prompt.chunks[0]
        forged = replace(first, token_ids=(*first.token_ids[:-1], 7))
        document = replace(prompt.documents[0], chunks=(forged, *prompt.chunks[1:]))
        with workspace.store.snapshot() as snapshot:
            for asked, is_hit in ((prompt, True), (replace(prompt, documents=(document,)), False)):
                found = find_stored(snapshot, asked, workspace.keys, 0, ())
                assert (found.chunks[0] is not None) is is_hit
                assert None not in found.chunks[1:]


def test_the_order_of_names_is_the_order_in_the_prompt(desk: Desk) -> None:
    paths = [desk.write(f"{name}.md", make_text(seed, 2)) for seed, name in enumerate("abc")]
    desk.index()
    with desk.workspace() as workspace:
        for order in ((0, 1, 2), (2, 0, 1), (1, 1)):
            stitched = start_answer(workspace, ask_request(*(paths[place] for place in order))).stitched
            assert [document.name for document in stitched.prompt.documents] == [str(paths[place]) for place in order]
            text = workspace.handle.codec.text(stitched.prompt.token_ids)
            bodies = [text.index(make_text(place, 2), 1) for place in dict.fromkeys(order)]
            assert bodies == sorted(bodies)
            first, *others = stitched.plan.segments
            assert hits(first.chunks) == {Hit.EXACT}
            assert all(hits(segment.chunks) == {Hit.CONTENT} for segment in others)


def test_a_document_is_named_by_path_or_by_the_end_of_its_path(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one/a.md", "two/a.md", "two/b.md"):
        desk.write(name, make_text(len(name), 1))
    desk.index()
    monkeypatch.chdir(desk.docs / "two")
    names = {"b.md": "two/b.md", "one/a.md": "one/a.md", str(desk.docs / "one/a.md"): "one/a.md", "a.md": "two/a.md"}
    with desk.workspace() as workspace:
        for name, place in names.items():
            document = start_answer(workspace, ask_request(name)).stitched.prompt.documents[0]
            assert document.name == str(desk.docs / place)
        monkeypatch.chdir(desk.root)
        with pytest.raises(AmbiguousDocument, match=r"2 documents end in this name, .*: a\.md$"):
            start_answer(workspace, ask_request("a.md"))
        with pytest.raises(DocumentNotFound, match=r"\(did you mean b\.md\?\): bb\.md$"):
            start_answer(workspace, ask_request("bb.md"))


def test_search_picks_the_documents_that_have_the_questions_words(desk: Desk) -> None:
    for seed, word in enumerate(("zebra", "walrus", "heron")):
        desk.write(f"{word}.md", f"The {word} lives here. " + make_text(seed, 2))
    desk.index()
    with desk.workspace() as workspace:
        request = ask_request(question="Where is the walrus, where the heron?", top_k=2)
        names = {Path(document.name).stem for document in start_answer(workspace, request).stitched.prompt.documents}
        assert names == {"walrus", "heron"}
        with pytest.raises(NothingFound, match=r"no indexed document has a word of the question: xylophone\?$"):
            start_answer(workspace, ask_request(question="xylophone?"))


def test_a_question_without_text_is_refused(desk: Desk) -> None:
    with desk.workspace() as workspace, pytest.raises(EmptyQuestion):
        start_answer(workspace, ask_request(question=" \n"))


def test_a_prompt_that_does_not_fit_is_refused_with_the_figures(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 10)) for seed in range(3)]
    desk.index()
    fact = r"context of 4,096 tokens; the largest documents are \d\.md \(\d,\d{3} tokens\), .*: \d,\d{3} tokens$"
    with desk.workspace() as workspace, pytest.raises(PromptTooLong, match=fact):
        start_answer(workspace, ask_request(*paths))


def test_an_answer_ends_with_the_models_context(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1, 22))
    with desk.workspace() as workspace:
        prompt = len(start_answer(workspace, ask_request(path, max_tokens=1)).stitched.prompt.token_ids)
        assert start_answer(workspace, ask_request(path, max_tokens=9999)).max_tokens == 4096 - prompt > 0


def test_an_ask_without_store_and_documents_makes_no_store(desk: Desk) -> None:
    with pytest.raises(StoreNotFound), desk.workspace(create=False):
        pass
    assert not (desk.root / "store").exists()


def test_a_stored_text_from_standard_input_can_be_asked(desk: Desk) -> None:
    desk.index(listed=(), text_document=document_from_text("stdin", make_text(1)))
    with desk.workspace() as workspace:
        stitched = ask_and_keep(workspace, ask_request("stdin")).stitched
    assert hits(stitched.plan.chunks) == {Hit.EXACT}
