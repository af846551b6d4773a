"""Damage in a positional record costs the exact hit and no more; it is told, and the record is made anew."""

from pathlib import Path

import pytest
import torch
from samples import Desk, ask_and_keep, ask_request, hit_kinds, make_text, reference_logits
from test_keeping_up import prepare

from kvboost_cli.pipelines.asking import Answer, start_answer
from kvboost_cli.pipelines.lookup import find_chain
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.prepare import preamble_key
from kvboost_cli.pipelines.records import positional_record
from kvboost_cli.pipelines.writer import DocumentWriter

# fp32 in another order of sums, logits of about 6
TOLERANCE = {"atol": 1e-4, "rtol": 0}


@pytest.fixture
def path(desk: Desk) -> Path:
    """An indexed document of several chunks, unquantized."""
    desk.bits = 16
    path = desk.write("a.md", make_text(1, 6))
    desk.index()
    return path


def chunk_hits(answer: Answer) -> list[Hit]:
    return [chunk.hit for chunk in answer.stitched.plan.chunks]


def is_sound(desk: Desk, key: bytes) -> bool:
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        header = snapshot.position_header(key)
        return header is not None and snapshot.verify(key, header)


@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_link_falls_back_to_content_and_is_made_anew(
    desk: Desk, path: Path, layer: int | None, number: int
) -> None:
    keys = desk.entry(path).position_keys
    desk.damage(keys[number], layer, database="positions")
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
        assert answer.stitched.damaged == {keys[number]}
        assert chunk_hits(answer) == [Hit.EXACT] * number + [Hit.CONTENT] * (len(keys) - number)
        again = start_answer(workspace, ask_request(path))
        expected = reference_logits(workspace, again.stitched.prompt.token_ids)
    assert again.stitched.damaged == frozenset()
    assert hit_kinds(again.stitched) == [{Hit.EXACT}]
    assert all(is_sound(desk, key) for key in keys)
    torch.testing.assert_close(again.stitched.logits, expected, **TOLERANCE)


def test_only_the_damaged_link_is_written_anew(desk: Desk, path: Path) -> None:
    keys = desk.entry(path).position_keys
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        before = [snapshot.position_header(key) for key in keys]
    assert before[2] is not None
    desk.damage(keys[2], database="positions")
    tally, _events = desk.index()
    assert (tally.num_new_chunks, tally.tokens_encoded) == (0, 0)
    assert tally.tokens_exact == before[2].num_tokens
    assert tally.changes["unchanged"] == 1
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        assert [snapshot.position_header(key) for key in keys] == before
    assert desk.index()[0].num_planned == 0


def test_force_finds_a_damaged_layer_that_index_passes_over(desk: Desk, path: Path) -> None:
    keys = desk.entry(path).position_keys
    desk.damage(keys[1], layer=1, database="positions")
    untouched, _events = desk.index()
    assert (untouched.changes["unchanged"], untouched.tokens_exact) == (1, 0)
    forced, _events = desk.index(force=True)
    assert (forced.num_new_chunks, forced.tokens_exact > 0) == (0, True)
    assert all(is_sound(desk, key) for key in keys)


def test_a_chunk_that_is_damaged_in_both_kinds_is_computed(desk: Desk, path: Path) -> None:
    entry = desk.entry(path)
    desk.damage(entry.position_keys[1], 0, database="positions")
    desk.damage(entry.chunk_keys[1], 1)
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
        assert answer.stitched.damaged == {entry.position_keys[1], entry.chunk_keys[1]}
        assert chunk_hits(answer)[:3] == [Hit.EXACT, Hit.MISS, Hit.CONTENT]
        again = start_answer(workspace, ask_request(path))
    assert hit_kinds(again.stitched) == [{Hit.EXACT}]
    assert again.stitched.damaged == frozenset()


def test_every_damaged_record_of_a_document_is_mended_by_one_ask(desk: Desk, path: Path) -> None:
    """Links behind the first damaged one are not even looked up for the prompt."""
    entry = desk.entry(path)
    for number, key in enumerate(entry.position_keys):
        desk.damage(key, number % 2, database="positions")
    desk.damage(entry.chunk_keys[2], 1)
    with desk.workspace() as workspace:
        ask_and_keep(workspace, ask_request(path))
        again = start_answer(workspace, ask_request(path))
    assert hit_kinds(again.stitched) == [{Hit.EXACT}]
    assert again.stitched.damaged == frozenset()


def test_a_damaged_preamble_leaves_the_documents_exact(desk: Desk, path: Path) -> None:
    with desk.workspace() as workspace:
        preamble = start_answer(workspace, ask_request(path)).stitched.prompt.preamble
        key = preamble_key(workspace.handle.fingerprint, preamble, rope_variant=0)
    desk.damage(key, 0, database="positions")
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
        expected = reference_logits(workspace, answer.stitched.prompt.token_ids)
    assert answer.stitched.plan.preamble_hit is Hit.MISS
    assert hit_kinds(answer.stitched) == [{Hit.EXACT}]
    torch.testing.assert_close(answer.stitched.logits, expected, **TOLERANCE)


def test_a_link_of_other_token_ids_is_no_hit(desk: Desk, path: Path) -> None:
    """As if two runs of tokens had one key."""
    with desk.workspace() as workspace:
        answer = start_answer(workspace, ask_request(path))
        prompt, keys, model = answer.stitched.prompt, workspace.keys, workspace.handle.loaded
        parent = preamble_key(keys.fingerprint, (1, 2, 3), rope_variant=0)
        runs = next(prompt.positional_runs)
        (link, *_rest) = keys.chain(parent, [runs])
        forged = (*link.token_ids[:-1], 7)
        size = slice(0, len(forged))
        layers = [
            (cached[0][0, :, size], cached[1][0, :, size])
            for cached in map(answer.stitched.kv.layer_kv, range(model.geometry.num_layers))
        ]
        record = positional_record(link.key, model, keys.fingerprint, workspace.recipe, forged, layers, rotated=False)
        workspace.store.put_position(record)
        with workspace.store.snapshot() as snapshot:
            assert snapshot.position_header(link.key) is not None
            assert find_chain(snapshot, keys, parent, [runs], ()) == []


def test_a_link_that_is_dropped_between_looking_and_storing_is_made_again(desk: Desk) -> None:
    """Two documents of one text and one name below their folders share their links."""
    desk.write("one/a.md", make_text(1, 4))
    desk.index(desk.docs / "one")
    second = desk.write("two/a.md", make_text(1, 4) + "\n" + make_text(2, 4))
    with desk.workspace() as workspace:
        prepared = prepare(workspace, second)
        chain = [link.key for link in workspace.chain(prepared)]
        with workspace.store.snapshot() as snapshot:
            assert 0 < len(snapshot.missing_positions(chain)) < len(chain), "some links are shared"
        steps = DocumentWriter(workspace, list).add(prepared)
        next(steps)  # it has looked, and has not stored yet
        workspace.store.remove_document(str(desk.docs / "one" / "a.md"))
        list(steps)
        with workspace.store.snapshot() as snapshot:
            assert snapshot.missing_positions(chain) == []
            assert snapshot.missing(prepared.keys) == []
    assert desk.entry(second).position_keys == tuple(chain)
    with desk.workspace() as workspace:
        assert hit_kinds(start_answer(workspace, ask_request(second)).stitched) == [{Hit.EXACT}]
