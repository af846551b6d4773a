"""What goes into an index run and what falls out of it: failures, pruning, lists, standard input, interruptions."""

import pytest
from samples import Desk, make_text

from kvboost_cli.documents import PathNotFound, Skipped, document_from_text
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.writer import Indexed


def test_without_prune_a_document_that_is_gone_stays(desk: Desk) -> None:
    desk.write("a.md", make_text(1)).unlink()
    desk.write("b.md", make_text(2))
    desk.write("gone.md", make_text(3))
    desk.index()
    (desk.docs / "gone.md").unlink()
    assert desk.index()[0].changes["removed"] == 0
    assert desk.names() == ["b.md", "gone.md"]


def test_prune_removes_below_the_given_paths_only(desk: Desk) -> None:
    for name in ("one/a.md", "one-more/b.md", "two/c.md"):
        desk.write(name, make_text(len(name)))
    desk.index()
    for name in ("one/a.md", "one-more/b.md", "two/c.md"):
        (desk.docs / name).unlink()
    tally, _ = desk.index(desk.docs / "one", prune=True)
    assert tally.changes["removed"] == 1
    assert desk.names() == ["one-more/b.md", "two/c.md"]


def test_a_document_that_fails_is_reported_and_the_others_are_done(desk: Desk) -> None:
    desk.write("a.md", make_text(1))
    (desk.docs / "bad.txt").write_bytes(b"\x00\x01\x02" * 500)
    desk.write("c.md", make_text(2))
    tally, events = desk.index(desk.docs / "bad.txt", desk.docs)
    assert tally.changes["added"] == 2
    assert tally.num_failed == 1
    skips = [event for event in events if isinstance(event, Skipped)]
    assert [(skip.path, skip.failed) for skip in skips] == [(str(desk.docs / "bad.txt"), True)]
    assert desk.names() == ["a.md", "c.md"]


def test_a_pdf_that_cannot_be_read_does_not_stop_the_rest(desk: Desk) -> None:
    (desk.docs / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of a PDF follows\n")
    desk.write("z.md", make_text(1))
    tally, _ = desk.index()
    assert (tally.changes["added"], tally.num_failed) == (1, 1)
    assert desk.names() == ["z.md"]


def test_pruning_keeps_a_document_that_only_fails_now(desk: Desk) -> None:
    path = desk.write("notes", make_text(1))
    desk.index()
    path.write_bytes(b"%PDF-1.7\nnothing of a PDF follows\n")
    tally, _ = desk.index(prune=True)
    assert (tally.num_failed, tally.changes["removed"]) == (1, 0)
    assert desk.names() == ["notes"]


def test_pruning_removes_a_document_that_became_none(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    path.write_bytes(b"\x00\x01\x02" * 500)
    tally, _ = desk.index(prune=True)
    assert (tally.num_failed, tally.changes["removed"]) == (0, 1)
    assert desk.names() == []


def test_standard_input_is_a_document(desk: Desk) -> None:
    text = document_from_text("stdin", make_text(1))
    tally, _ = desk.index(listed=(), text_document=text)
    assert tally.changes["added"] == 1
    assert desk.names() == ["stdin"]
    again, _ = desk.index(listed=(), text_document=text)
    assert (again.changes["unchanged"], again.tokens_encoded) == (1, 0)
    changed, _ = desk.index(listed=(), text_document=document_from_text("stdin", make_text(2)))
    assert changed.changes["updated"] == 1


def test_pruning_a_folder_leaves_standard_inputs_document(desk: Desk) -> None:
    desk.index(listed=(), text_document=document_from_text("stdin", make_text(1)))
    desk.write("a.md", make_text(2))
    desk.index(prune=True)
    assert desk.names() == ["a.md", "stdin"]


def test_a_listed_file_that_is_missing_fails_alone(desk: Desk) -> None:
    path, missing = desk.write("a.md", make_text(1)), str(desk.docs / "missing.md")
    tally, _ = desk.index(listed=[missing, str(path), str(path)])
    assert (tally.changes["added"], tally.num_failed) == (1, 1)
    assert tally.skipped[0].path == missing
    with pytest.raises(PathNotFound):
        desk.index(missing)


def test_globs_and_excludes_choose(desk: Desk) -> None:
    for name in ("a.md", "b.txt", "drafts/c.md"):
        desk.write(name, make_text(len(name)))
    desk.index(globs=["*.md"], excludes=["drafts/"])
    assert desk.names() == ["a.md"]


def test_an_interrupted_run_keeps_what_it_stored(desk: Desk) -> None:
    for index in range(3):
        desk.write(f"{index}.md", make_text(index))
    with desk.workspace() as workspace:
        events = index_documents(workspace, IndexRequest([str(desk.docs)]))
        next(event for event in events if isinstance(event, Indexed))
        events.close()  # type: ignore[attr-defined]
    assert desk.names() == ["0.md"]
    tally, _ = desk.index()
    assert (tally.changes["added"], tally.changes["unchanged"]) == (2, 1)


def test_a_damaged_chunk_header_is_encoded_again(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        entry = snapshot.document(str(path))
        assert entry is not None
    desk.damage(entry.chunk_keys[0])
    tally, _ = desk.index()
    assert (tally.num_new_chunks, tally.changes["unchanged"]) == (1, 1)
    assert desk.index()[0].num_planned == 0
