"""Damage in a chunk is a miss: the answer is as if the record were absent, and the record is rebuilt.

The stores here have no exact KV of documents; test_exact_damage has those that do.
"""

from pathlib import Path

import pytest
import torch
from samples import Desk, ask_and_keep, ask_request, make_text

from kvboost_cli.documents import document_from_text
from kvboost_cli.pipelines.asking import Answer, start_answer
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.prepare import preamble_key

TOLERANCE = {"atol": 1e-4, "rtol": 0}


@pytest.fixture
def path(desk: Desk) -> Path:
    """An indexed document of several chunks."""
    desk.exact = False
    path = desk.write("a.md", make_text(1))
    desk.index()
    return path


def chunk_keys(desk: Desk, name: str) -> tuple[bytes, ...]:
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        entry = snapshot.document(name)
        assert entry is not None
        return entry.chunk_keys


def is_sound(desk: Desk, key: bytes) -> bool:
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        header = snapshot.header(key)
        return header is not None and snapshot.verify(key, header)


def hits(answer: Answer) -> list[Hit]:
    return [chunk.hit for chunk in answer.stitched.plan.chunks]


@pytest.mark.parametrize("layer", [0, 1])
def test_a_damaged_layer_is_computed_and_rebuilt(desk: Desk, path: Path, layer: int) -> None:
    keys = chunk_keys(desk, str(path))
    desk.damage(keys[1], layer)
    assert not is_sound(desk, keys[1])
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
        assert answer.stitched.damaged == {keys[1]}
        assert [hit is Hit.MISS for hit in hits(answer)] == [key == keys[1] for key in keys]
        again = start_answer(workspace, ask_request(path))
    assert set(hits(again)) == {Hit.CONTENT}
    assert again.stitched.damaged == frozenset()
    assert is_sound(desk, keys[1])


def test_the_rebuilt_record_is_the_one_that_was_damaged(desk: Desk, path: Path) -> None:
    key = chunk_keys(desk, str(path))[0]
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        before = snapshot.header(key)
    desk.damage(key, 0)
    with desk.workspace() as workspace:
        ask_and_keep(workspace, ask_request(path))
        with workspace.store.snapshot() as snapshot:
            after = snapshot.header(key)
    assert before is not None
    assert after is not None
    # encoded in a window of its own, so the KV differs by its context and by nothing else
    assert (after.token_ids, after.layer_bytes) == (before.token_ids, before.layer_bytes)


def test_a_damaged_header_is_a_miss_and_rebuilt(desk: Desk, path: Path) -> None:
    keys = chunk_keys(desk, str(path))
    desk.damage(keys[0])
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
        assert hits(answer)[0] is Hit.MISS
        assert set(hits(start_answer(workspace, ask_request(path)))) == {Hit.CONTENT}
    assert is_sound(desk, keys[0])


def test_several_damaged_chunks_are_all_rebuilt(desk: Desk, path: Path) -> None:
    keys = chunk_keys(desk, str(path))
    for layer, key in enumerate(keys[:2]):
        desk.damage(key, layer)
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
    assert answer.stitched.damaged == set(keys[:2])
    assert all(is_sound(desk, key) for key in keys)


@pytest.mark.parametrize("layer", [None, 1])
def test_a_damaged_preamble_is_computed_and_rebuilt(desk: Desk, path: Path, layer: int | None) -> None:
    with desk.workspace() as workspace:
        clean = start_answer(workspace, ask_request(path))
        key = preamble_key(workspace.handle.fingerprint, clean.stitched.prompt.preamble, rope_variant=0)
    assert clean.stitched.plan.preamble_hit is Hit.EXACT
    desk.damage(key, layer, database="positions")
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request(path))
        assert answer.stitched.plan.preamble_hit is Hit.MISS
        assert start_answer(workspace, ask_request(path)).stitched.plan.preamble_hit is Hit.EXACT
    torch.testing.assert_close(answer.stitched.logits, clean.stitched.logits, **TOLERANCE)


def test_damage_in_a_text_that_came_from_standard_input_does_not_spoil_the_answer(desk: Desk) -> None:
    """There is no file to read it from again, but its token ids are in the headers."""
    desk.exact = False
    desk.index(listed=(), text_document=document_from_text("stdin", make_text(1)))
    key = chunk_keys(desk, "stdin")[0]
    desk.damage(key, 0)
    with desk.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request("stdin"))
    assert hits(answer)[0] is Hit.MISS
    assert len(answer.token_ids) > 0
