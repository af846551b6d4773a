"""Exact KV of documents over time: edits, renames, moves, other settings; what is kept and what is made anew."""

from pathlib import Path

import pytest
import torch
from samples import Desk, ask_and_keep, ask_request, hit_kinds, make_text, reference_logits

from kvboost_cli.documents import document_from_text
from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.writer import Encoded, Indexed
from store import RecipeMismatch

# fp32 in another order of sums, logits of about 6
TOLERANCE = {"atol": 1e-4, "rtol": 0}

E, C, M = Hit.EXACT, Hit.CONTENT, Hit.MISS


def test_an_edit_keeps_the_links_before_it(desk: Desk) -> None:
    desk.bits = 16
    text = make_text(1, 8)
    path = desk.write("a.md", text)
    desk.index()
    before = desk.entry(path)
    head, _, tail = text.rpartition("\n\n")
    desk.write("a.md", f"{head} One more sentence.\n\n{tail}")
    with desk.workspace() as workspace:
        stitched = ask_and_keep(workspace, ask_request(path)).stitched
        (segment,) = stitched.plan.segments
        kinds_in_order = [segment.header_hit, *(chunk.hit for chunk in segment.chunks)]
        assert kinds_in_order[:3] == [E, E, E]
        assert M in kinds_in_order
        assert E not in kinds_in_order[kinds_in_order.index(M) :]
        again = start_answer(workspace, ask_request(path)).stitched
        expected = reference_logits(workspace, again.prompt.token_ids)
    assert hit_kinds(again) == [{E}]
    torch.testing.assert_close(again.logits, expected, **TOLERANCE)
    after = desk.entry(path)
    shared = set(before.position_keys) & set(after.position_keys)
    assert after.position_keys[: len(shared)] == before.position_keys[: len(shared)]
    assert 2 <= len(shared) < len(after.position_keys) == len(after.chunk_keys)


def test_what_an_edit_left_behind_is_dropped(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    before = desk.entry(path)
    desk.write("a.md", make_text(2, 3))
    desk.index()
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        assert snapshot.missing_positions(before.position_keys) == list(before.position_keys)
    path.unlink()
    desk.index(prune=True)
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        assert list(snapshot.documents()) == []
        assert snapshot.damaged == []


def test_a_renamed_file_is_exact_under_its_new_name(desk: Desk) -> None:
    """Its chunks are kept but the first, which begins with the name, as the links do."""
    desk.bits = 16
    path = desk.write("a.md", make_text(1, 4))
    desk.index()
    path = path.rename(desk.docs / "another-name.md")
    tally, _events = desk.index(prune=True)
    assert (tally.changes["added"], tally.changes["removed"]) == (1, 1)
    assert tally.num_new_chunks == 1 < tally.num_reused_chunks
    assert tally.tokens_exact > tally.tokens_encoded > 0
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(path)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    assert hit_kinds(stitched) == [{E}]
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


def test_a_moved_collection_is_exact_without_a_model(desk: Desk) -> None:
    """Names in prompts are relative to the folder that was indexed."""
    desk.write("one/a.md", make_text(1))
    desk.write("one/sub/b.md", make_text(2, 2))
    desk.index(desk.docs / "one")
    (desk.docs / "one").rename(desk.docs / "two")
    desk.handles.clear()
    tally, _events = desk.index(desk.docs / "two")
    assert (tally.changes["added"], tally.num_new_chunks, tally.tokens_exact) == (2, 0, 0)
    assert not any(handle.load_s for handle in desk.handles.values())
    with desk.workspace() as workspace:
        for name in ("two/a.md", "two/sub/b.md"):
            assert hit_kinds(start_answer(workspace, ask_request(desk.docs / name)).stitched) == [{E}]


def test_a_touched_file_below_another_folder_is_exact_under_the_name_that_this_gives_it(desk: Desk) -> None:
    path = desk.write("sub/a.md", make_text(1))
    desk.index()
    path.touch()
    tally, _events = desk.index(desk.docs / "sub")
    assert (tally.changes["unchanged"], tally.num_new_chunks) == (1, 1)
    assert tally.tokens_exact > 0
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(path)).stitched
        assert "sub/a.md" not in workspace.handle.codec.text(stitched.prompt.token_ids)
    assert hit_kinds(stitched) == [{E}]
    path.touch()
    again, _events = desk.index(desk.docs / "sub")
    assert (again.changes["unchanged"], again.tokens_exact) == (1, 0)


def test_a_copy_has_links_and_a_first_chunk_of_its_own(desk: Desk) -> None:
    first = desk.write("a.md", make_text(1, 4))
    desk.index()
    copy = desk.write("copy.md", make_text(1, 4))
    tally, _events = desk.index()
    assert (tally.changes["added"], tally.num_new_chunks) == (1, 1)
    assert tally.num_reused_chunks > 1
    with desk.workspace() as workspace:
        for path in (first, copy):
            assert hit_kinds(start_answer(workspace, ask_request(path)).stitched) == [{E}]


def test_without_exact_nothing_is_stored_at_its_place(desk: Desk) -> None:
    desk.exact = False
    path = desk.write("a.md", make_text(1))
    tally, events = desk.index()
    assert tally.tokens_exact == sum(event.num_exact_tokens for event in events if isinstance(event, Encoded)) == 0
    assert desk.entry(path).position_keys == ()
    with desk.workspace() as workspace:
        assert hit_kinds(start_answer(workspace, ask_request(path)).stitched) == [{C}]
        num_bytes = workspace.store.stats().live_bytes
    desk.exact = True
    with pytest.raises(RecipeMismatch, match="exact is False there and True here"):
        desk.index()
    forced, _events = desk.index(force=True)
    assert forced.changes["updated"] == 1
    assert forced.tokens_exact > 0
    with desk.workspace() as workspace:
        assert hit_kinds(start_answer(workspace, ask_request(path)).stitched) == [{E}]
        assert workspace.store.stats().live_bytes > 1.5 * num_bytes
    desk.exact = False
    desk.index(force=True)
    assert desk.entry(path).position_keys == ()
    desk.exact = None
    assert desk.index()[0].changes["unchanged"] == 1, "the store's own setting is taken"


def test_settings_that_come_back_are_not_taken_for_a_whole_store(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    desk.write("b.md", make_text(2))
    desk.exact = False
    desk.index(desk.docs / "b.md", force=True)
    desk.exact = True
    desk.index(desk.docs / "b.md", force=True)
    tally, _events = desk.index()
    assert (tally.num_new_chunks, tally.changes["unchanged"]) == (0, 2)
    assert tally.tokens_exact > 0
    with desk.workspace() as workspace:
        assert hit_kinds(start_answer(workspace, ask_request(path)).stitched) == [{E}]


def test_what_an_ask_keeps_is_what_an_index_stores(desk: Desk, tmp_path: Path) -> None:
    path = desk.write("a.md", make_text(1))
    with desk.workspace() as workspace:
        ask_and_keep(workspace, ask_request(path, system="You are terse."))
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other", desk.model_dir)
    other.index(path)
    assert desk.entry(path).position_keys == other.entry(path).position_keys != ()
    assert desk.index(path)[0].changes["unchanged"] == 1


def test_a_text_from_standard_input_is_exact(desk: Desk) -> None:
    desk.index(listed=(), text_document=document_from_text("stdin", make_text(1)))
    with desk.workspace() as workspace:
        assert hit_kinds(start_answer(workspace, ask_request("stdin")).stitched) == [{E}]


def test_a_document_beyond_the_models_context_is_exact_up_to_there(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1, 40))
    desk.index()
    entry = desk.entry(path)
    assert 4 < len(entry.position_keys) < len(entry.chunk_keys)
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        headers = [snapshot.position_header(key) for key in entry.position_keys]
    num_tokens = sum(header.num_tokens for header in headers if header)
    assert 4096 - 512 < num_tokens < 4096
    assert desk.index()[0].changes["unchanged"] == 1


def test_each_pass_of_a_long_document_is_a_sign_of_life(desk: Desk) -> None:
    desk.write("a.md", make_text(1, 20))
    tally, events = desk.index()
    signs = [event.num_exact_tokens for event in events if isinstance(event, Encoded) and not event.num_tokens]
    assert len(signs) > 5
    assert max(signs) <= 512
    assert sum(signs) == tally.tokens_exact
    indexed = [event for event in events if isinstance(event, Indexed)]
    assert sum(event.num_missing_tokens for event in indexed) == tally.tokens_encoded == tally.tokens_exact
