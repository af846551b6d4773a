"""The account of an ask: phases, tokens, and the comparison with full prefill."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from samples import Desk, ask_request, make_text

from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.finishing import make_report, record_ask, record_attention, verify_answer
from kvboost_cli.pipelines.report import PHASES
from kvboost_cli.pipelines.workspace import Workspace
from store import ChunkAttention


@pytest.mark.parametrize("repair", ["none", "selective", "auto"])
def test_phases_sum_to_the_total_and_tokens_to_the_prompt(desk: Desk, repair: str) -> None:
    desk.exact = False
    stored, missing = desk.write("a.md", make_text(1)), desk.docs / "b.md"
    desk.index()
    missing.write_text(make_text(2))
    with desk.workspace() as workspace:
        for documents in ([stored], [stored, missing], [missing]):
            request = ask_request(*documents, repair=repair)
            answer = start_answer(workspace, request)
            answer.drain(workspace.handle.loaded)
            facts = make_report(workspace, request, answer, None).to_json()
            ttft, tokens = facts["ttft"], facts["tokens"]
            assert {"tokenize_s", "lookup_s", "load_s", "first_token_s"} <= set(answer.phases) <= set(PHASES)
            assert sum(ttft[phase] for phase in PHASES) == pytest.approx(ttft["total_s"])
            assert all(ttft[phase] >= 0 for phase in PHASES)
            counts = [tokens[kind] for kind in ("exact", "reused", "repaired", "prefilled")]
            assert sum(counts) == tokens["prompt"] == len(answer.stitched.prompt.token_ids)
            assert tokens["generated"] == len(answer.token_ids)
            assert (tokens["repaired"] > 0) is (repair != "none" and stored in documents)
            assert ("encode_missing_s" in answer.phases) is (missing in documents)


def test_what_the_question_looks_at_is_kept_for_each_chunk(desk: Desk) -> None:
    desk.exact = False
    paths = [desk.write(f"{seed}.md", make_text(seed, 3)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        request = ask_request(*paths, repair="question")
        answer = start_answer(workspace, request)
        answer.drain(workspace.handle.loaded)
        report = make_report(workspace, request, answer, None)
        record_ask(workspace, report, record_attention(answer.stitched))
        kept = {key: entry for path in paths for key, entry in attention_of(workspace, path).items()}
        prompt, mass = answer.stitched.prompt, answer.stitched.mass
    assert mass is not None
    assert len(kept) == len(prompt.chunks) > 3
    for chunk in prompt.chunks:
        start = first_place(prompt.token_ids, chunk.token_ids)
        seen = float(mass[start : start + len(chunk.token_ids)].sum())
        assert kept[chunk.key].mass == pytest.approx(seen)
        assert (seen > 0, kept[chunk.key].num_asks) == (True, 1)
    assert sum(entry.mass for entry in kept.values()) < 1, "the rest is the preamble's, the headers' and the tail's"


def attention_of(workspace: Workspace, path: Path) -> dict[bytes, ChunkAttention]:
    """What the store has kept for each of a document's chunks."""
    with workspace.store.snapshot() as snapshot:
        entry = snapshot.document(str(path))
        assert entry is not None
        found = {key: snapshot.attention(key) for key in entry.chunk_keys}
    return {key: attention for key, attention in found.items() if attention is not None}


def first_place(token_ids: Sequence[int], part: Sequence[int]) -> int:
    """Where a chunk stands in a prompt."""
    return next(place for place in range(len(token_ids)) if tuple(token_ids[place : place + len(part)]) == tuple(part))


def test_a_full_prefill_verified_against_itself_diverges_by_nothing(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    with desk.workspace() as workspace:
        answer = start_answer(workspace, ask_request(path, no_cache=True, max_tokens=40))
        answer.drain(workspace.handle.loaded)
        verification = verify_answer(workspace, answer)
    assert verification.kl_first < 1e-6
    assert verification.kl_mean < 1e-6
    assert verification.top1_agreement == 1.0
    assert verification.matched_prefix == len(answer.token_ids)
    assert verification.speedup > 0


def test_verification_tells_a_stitched_prompt_from_full_prefill(desk: Desk) -> None:
    desk.bits = 4
    paths = [desk.write(f"{seed}.md", make_text(seed, 3)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        request = ask_request(*paths, max_tokens=12)
        answer = start_answer(workspace, request)
        answer.drain(workspace.handle.loaded)
        kept = list(answer.token_ids)
        verification = verify_answer(workspace, answer)
        reference = start_answer(workspace, ask_request(*paths, max_tokens=12, no_cache=True))
        reference.drain(workspace.handle.loaded)
        assert verification.reference_answer == workspace.handle.codec.text(reference.token_ids)
        record_ask(workspace, make_report(workspace, request, answer, verification), record_attention(answer.stitched))
        assert workspace.store.stats().num_asks == 1
    assert answer.token_ids == kept
    assert verification.kl_mean > 1e-4
