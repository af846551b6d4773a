"""Records that gave way for the budget: an index leaves them, a question computes and brings back what it needs."""

from pathlib import Path

import pytest
from samples import Desk, ask_and_keep, ask_request, hit_kinds, make_text, reference_logits

from kvboost_cli.documents import document_from_bytes
from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.finishing import make_report, record_ask, record_attention
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.workspace import Workspace
from store import DocumentEntry, Fault, check_store, set_budget
from store.budget import Budget
from store.eviction import by_importance
from store.room import drop_records
from store.upkeep import Rules

ALL = 1 << 40


def evict_all(workspace: Workspace) -> int:
    return drop_records(workspace.store._environment, ALL, by_importance)


def entry_of(workspace: Workspace, name: str | Path) -> DocumentEntry:
    with workspace.store.snapshot() as snapshot:
        entry = snapshot.document(str(name))
    assert entry is not None
    return entry


def evicted(workspace: Workspace, name: str | Path) -> tuple[int, int]:
    """How many of a document's chunks and exact records are evicted."""
    entry = entry_of(workspace, name)
    with workspace.store.snapshot() as snapshot:
        chunks, exact = (sum(map(snapshot.is_evicted, keys)) for keys in (entry.chunk_keys, entry.position_keys))
    return chunks, exact


def test_an_index_run_leaves_evicted_records_and_needs_no_model(stocked: Desk) -> None:
    with stocked.workspace() as workspace:
        assert evict_all(workspace)
    stocked.handles.clear()
    tally, _events = stocked.index()
    assert (tally.changes["unchanged"], tally.tokens_encoded, tally.num_new_chunks) == (3, 0, 0)
    assert [name for name, handle in stocked.handles.items() if "loaded" in vars(handle)] == []
    tally, _events = stocked.index(force=True)
    assert tally.tokens_encoded > 0
    with stocked.workspace() as workspace:
        assert evicted(workspace, stocked.docs / "b.md") == (0, 0)


def test_a_question_computes_evicted_chunks_and_brings_back_what_it_had_a_use_for(stocked: Desk) -> None:
    a, b = stocked.docs / "a.md", stocked.docs / "b.md"
    with stocked.workspace() as workspace:
        evict_all(workspace)
        answer = ask_and_keep(workspace, ask_request(a, b))
        assert hit_kinds(answer.stitched) == [{Hit.MISS}, {Hit.MISS}]
        expected = reference_logits(workspace, answer.stitched.prompt.token_ids)
        assert (answer.stitched.logits - expected).abs().max() < 1e-3, "a miss is computed as full prefill does"
        assert evicted(workspace, a) == (0, 0)
        chunks, exact = evicted(workspace, b)
        assert (chunks, exact) == (0, len(entry_of(workspace, b).position_keys)), "it stood second"
        assert hit_kinds(start_answer(workspace, ask_request(a, b)).stitched) == [{Hit.EXACT}, {Hit.CONTENT}]
        assert evicted(workspace, stocked.docs / "sub" / "copy.md")[1] > 0, "nobody asked about it"
        assert [found for found in check_store(workspace.store, Rules()) if isinstance(found, Fault)] == []


def test_a_document_without_a_file_comes_back_from_its_token_ids(desk: Desk) -> None:
    text = make_text(5)
    desk.index(listed=(), text_document=document_from_bytes("stdin", text.encode()))
    with desk.workspace() as workspace:
        before = entry_of(workspace, "stdin")
        evict_all(workspace)
        ask_and_keep(workspace, ask_request("stdin"))
        assert evicted(workspace, "stdin") == (0, 0)
        after = entry_of(workspace, "stdin")
        assert (after.chunk_keys, after.position_keys) == (before.chunk_keys, before.position_keys)
        assert after.content_hash == before.content_hash
        assert workspace.search.search("valley", limit=1), "its words are still found"


def test_a_lost_search_index_is_made_anew_from_evicted_chunks(stocked: Desk) -> None:
    with stocked.workspace() as workspace:
        found = workspace.search.search("lantern meadow", limit=50)
        evict_all(workspace)
    for path in (stocked.root / "store").glob("search.sqlite*"):
        path.unlink()
    with stocked.workspace() as workspace:
        again = workspace.search.search("lantern meadow", limit=50)
    assert [(hit.name, hit.chunk_index) for hit in again] == [(hit.name, hit.chunk_index) for hit in found]


def test_asks_of_exact_documents_count_as_use(stocked: Desk) -> None:
    """Nothing is repaired there, so no attention is measured."""
    a = stocked.docs / "a.md"
    with stocked.workspace() as workspace:
        request = ask_request(a, repair="question")
        answer = start_answer(workspace, request)
        answer.drain(workspace.handle.loaded)
        record_ask(workspace, make_report(workspace, request, answer, None), answer.stitched)
        entry = entry_of(workspace, a)
        with workspace.store.snapshot() as snapshot:
            known = [snapshot.attention(key) for key in (*entry.chunk_keys, *entry.position_keys)]
    assert [one.num_asks for one in known if one] == [1] * len(known)


def test_an_exact_record_has_the_attention_of_all_that_stand_on_it(stocked: Desk) -> None:
    """So the end of a document's chain goes before its beginning."""
    b, a = stocked.docs / "b.md", stocked.docs / "a.md"
    with stocked.workspace() as workspace:
        answer = start_answer(workspace, ask_request(b, a, repair="question"))
        attention = record_attention(answer.stitched)
        entry = entry_of(workspace, b)
    masses = [attention[key] for key in entry.position_keys]
    assert masses == sorted(masses, reverse=True)
    assert masses[0] == pytest.approx(sum(attention[key] for key in entry.chunk_keys))


def test_a_collection_larger_than_the_budget_can_be_asked_about_all_over(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 6)) for seed in range(24)]
    desk.index(paths[0])
    with desk.workspace() as workspace:
        each = workspace.store.stats().live_bytes
        set_budget(workspace.store, Budget(max(1_500_000, 6 * each)))
    desk.index()
    with desk.workspace() as workspace:
        stats = workspace.store.stats()
        assert stats.num_documents == 24
        assert stats.num_evicted > 0
        for path in (paths[0], paths[12], paths[23]):
            ask_and_keep(workspace, ask_request(path))
            assert hit_kinds(start_answer(workspace, ask_request(path)).stitched) == [{Hit.EXACT}]
        stats = workspace.store.stats()
        assert stats.disk_bytes <= 1.02 * stats.budget.limit_bytes
