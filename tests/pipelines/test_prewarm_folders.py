"""Prewarming looks through the indexed folders again: what has changed, what is new, what is gone."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from prewarming import ask, chain_names, index_four, opened, prewarm
from samples import Desk, ask_request, hit_kinds, make_text, reference_logits

from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.folders import IndexedFolder, ignore_folder, remember_run
from kvboost_cli.pipelines.forgetting import forget
from kvboost_cli.pipelines.plan import Hit

# fp32 in another order of sums, logits of about 6
TOLERANCE = {"atol": 1e-4, "rtol": 0}

E, C, M = Hit.EXACT, Hit.CONTENT, Hit.MISS


@pytest.fixture
def paths(desk: Desk) -> list[Path]:
    return index_four(desk)


def test_an_edited_document_is_indexed_again_and_its_orders_are_made_anew(desk: Desk, paths: Sequence[Path]) -> None:
    request = ask_request(*paths[:3])
    with opened(desk) as workspace:
        ask(workspace, request)
        prewarm(workspace)
        paths[1].write_text(make_text(50, 3))
        stale = start_answer(workspace, request).stitched
        assert hit_kinds(stale) == [{E}, {M}, {C}], "what has changed is not taken from the store"
        done = prewarm(workspace)
        assert (done.tally.changes["updated"], done.made.num_made) == (1, 1)
        again = start_answer(workspace, request).stitched
        expected = reference_logits(workspace, again.prompt.token_ids)
    assert hit_kinds(again) == [{E}, {E}, {E}]
    assert again.prompt.token_ids == stale.prompt.token_ids
    torch.testing.assert_close(again.logits, expected, **TOLERANCE)


def test_new_documents_come_and_gone_ones_go_with_their_chains(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        ask(workspace, ask_request(paths[0], paths[1], paths[2]))
        prewarm(workspace)
        desk.write("sub/new.md", make_text(70))
        paths[1].unlink()
        paths[3].write_text("")
        done = prewarm(workspace)
        assert done.tally.changes == {"added": 1, "updated": 0, "unchanged": 2, "removed": 2}
        assert chain_names(workspace) == [], "the first document alone is exact by index"
    assert desk.names() == ["0.md", "2.md", "sub/new.md"]


def test_a_folder_that_is_missing_or_empty_keeps_its_documents(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        desk.docs.rename(desk.root / "elsewhere")
        desk.docs.mkdir()
        done = prewarm(workspace)
        assert [skip.path for skip in done.tally.skipped] == [str(desk.docs)]
        assert done.tally.num_failed == 0
    assert len(desk.names()) == len(paths)


def test_a_file_that_was_named_itself_is_looked_at_and_its_neighbours_are_not(desk: Desk) -> None:
    path, _neighbour = desk.write("a.md", make_text(1)), desk.write("b.md", make_text(2))
    desk.index(path)
    with desk.workspace() as workspace:
        path.write_text(make_text(3))
        assert prewarm(workspace).tally.changes == {"added": 0, "updated": 1, "unchanged": 0, "removed": 0}
        assert prewarm(workspace).tally.changes["unchanged"] == 1
        path.unlink()
        assert prewarm(workspace).tally.changes["removed"] == 1


def test_globs_and_shards_of_the_last_run_count(desk: Desk) -> None:
    for name in ("a.md", "b.txt", "c.md"):
        desk.write(name, make_text(ord(name[0])))
    with desk.workspace() as workspace:
        remember_run(workspace.store, [IndexedFolder(str(desk.docs))])
        remember_run(workspace.store, [IndexedFolder(str(desk.docs), globs=("*.md",), excludes=("c.*",))])
        assert prewarm(workspace).tally.changes["added"] == 1
        remember_run(workspace.store, [IndexedFolder(str(desk.docs), shard="1/2")])
        remember_run(workspace.store, [IndexedFolder(str(desk.root / "docs" / "*.txt"))])
        prewarm(workspace)
        (desk.docs / "b.txt").unlink()
        prewarm(workspace)
        assert ignore_folder(workspace.store, str(desk.docs))
        assert not ignore_folder(workspace.store, str(desk.docs))
        desk.write("late.md", make_text(90))
        assert prewarm(workspace).tally.changes["added"] == 0


def test_a_forgotten_file_does_not_come_back_by_itself(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        ask(workspace, ask_request(paths[0], paths[1]))
        prewarm(workspace)
        with workspace.store.writer_lock():
            forget(workspace.store, [str(paths[1])])
        done = prewarm(workspace)
        assert (done.tally.changes["added"], done.plan.to_make) == (0, ())
        assert chain_names(workspace) == []
        with workspace.store.snapshot() as snapshot:
            assert paths[1].name.encode() not in (snapshot.meta("folders") or b"")
    desk.index(paths[1])
    with opened(desk) as workspace:
        paths[1].write_text(make_text(60))
        assert prewarm(workspace).tally.changes["updated"] == 1, "who names it has it back"
