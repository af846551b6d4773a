"""Things that change between looking and writing, and what is made again from what is left."""

from pathlib import Path

import pytest
from samples import Desk, ask_and_keep, ask_request, make_text
from tiny_models import TinyModels

from kvboost_cli.documents import SourceFile, read_document
from kvboost_cli.model.errors import ModelUnsupported
from kvboost_cli.model.load import choose_device, load_model
from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.prepare import PreparedDocument, prepare_document
from kvboost_cli.pipelines.workspace import Workspace
from kvboost_cli.pipelines.writer import DocumentWriter, Encoded, Indexed


def prepare(workspace: Workspace, path: Path) -> PreparedDocument:
    """A file, read and cut, as the index flow does it."""
    info = path.stat()
    document = read_document(SourceFile(path, path.parent, info.st_size, info.st_mtime_ns))
    return prepare_document(document, workspace.handle.codec, workspace.keys)


def test_a_chunk_that_is_dropped_between_looking_and_storing_is_encoded_again(desk: Desk) -> None:
    first = desk.write("a.md", make_text(1, 8))
    desk.index()
    second = desk.write("b.md", make_text(1, 8) + "\n" + make_text(2, 8))
    with desk.workspace() as workspace:
        prepared = prepare(workspace, second)
        with workspace.store.snapshot() as snapshot:
            assert 0 < len(snapshot.missing(prepared.keys)) < len(prepared.keys), "some chunks are shared"
        steps = DocumentWriter(workspace, list).add(prepared)
        assert isinstance(next(steps), Encoded), "it has looked, and has not stored yet"
        workspace.store.remove_document(str(first))  # takes the shared chunks with it
        events = list(steps)
        with workspace.store.snapshot() as snapshot:
            assert snapshot.missing(prepared.keys) == []
    assert [event.name for event in events if isinstance(event, Indexed)] == [str(second)]


def test_force_finds_and_mends_a_damaged_layer_that_index_passes_over(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        key = prepare(workspace, path).keys[0]
    desk.damage(key, layer=1)
    untouched, _events = desk.index()
    assert untouched.changes["unchanged"] == 1
    forced, _events = desk.index(force=True)
    assert forced.num_new_chunks == 1
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        header = snapshot.header(key)
        assert header is not None
        assert snapshot.verify(key, header)


def test_pruning_a_path_that_is_gone_itself(desk: Desk) -> None:
    gone = desk.write("old/a.md", make_text(1))
    desk.write("b.md", make_text(2))
    desk.index()
    gone.unlink()
    gone.parent.rmdir()
    tally, _events = desk.index(gone.parent, prune=True)
    assert tally.changes["removed"] == 1
    assert tally.num_failed == 0
    assert desk.names() == ["b.md"]


def test_pruning_a_pattern_removes_what_is_gone_below_it(desk: Desk) -> None:
    gone = desk.write("sub/a.md", make_text(1))
    desk.write("sub/b.md", make_text(2))
    desk.index()
    gone.unlink()
    tally, _events = desk.index(f"{desk.docs}/sub/*.md", prune=True)
    assert tally.changes["removed"] == 1
    assert desk.names() == ["sub/b.md"]


def test_pruning_a_pattern_still_indexes_what_matches_it(desk: Desk) -> None:
    """Found in review: a pattern is no file's name, and was taken for one that is gone."""
    gone = desk.write("sub/a.md", make_text(1))
    desk.index()
    gone.unlink()
    desk.write("sub/b.md", make_text(2))
    tally, _events = desk.index(f"{desk.docs}/sub/*.md", prune=True)
    assert (tally.changes["added"], tally.changes["removed"]) == (1, 1)
    assert desk.names() == ["sub/b.md"]


def test_pruning_a_pattern_that_matches_nothing_any_more(desk: Desk) -> None:
    gone = desk.write("sub/a.md", make_text(1))
    desk.index()
    gone.unlink()
    tally, _events = desk.index(f"{desk.docs}/sub/*.md", prune=True)
    assert tally.changes["removed"] == 1
    assert desk.names() == []


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_the_search_index_is_made_again_from_the_store(desk: Desk, harm: str) -> None:
    desk.write("a.md", make_text(1))
    desk.write("b.md", "The ladder of the harbour is painted copper every winter.\n")
    desk.index()
    file = desk.root / "store" / "search.sqlite"
    file.unlink() if harm == "missing" else file.write_bytes(b"no database " * 500)
    with desk.workspace() as workspace:
        hits = workspace.search.search("painted copper", limit=1)
    assert [Path(hit.name).name for hit in hits] == ["b.md"]


def test_a_document_that_only_the_search_index_has_is_forgotten(desk: Desk) -> None:
    desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        workspace.search.replace_document("/gone.md", "0" * 64, ["zebra crossing"])
    with desk.workspace() as workspace:
        assert workspace.search.search("zebra", limit=1) == []


def test_a_named_document_is_asked_about_without_opening_the_search_index(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    (desk.root / "store" / "search.sqlite").unlink()
    with desk.workspace() as workspace:
        ask_and_keep(workspace, ask_request(path))
    assert not (desk.root / "store" / "search.sqlite").exists()


def test_a_search_passes_over_a_document_that_is_gone_and_says_so(desk: Desk) -> None:
    gone = desk.write("a.md", "The lantern of the harbour is lit at dusk.\n")
    desk.write("b.md", "The harbour has a lantern and a long wall.\n")
    desk.index()
    gone.unlink()
    with desk.workspace() as workspace:
        answer = start_answer(workspace, ask_request(question="When is the lantern of the harbour lit?"))
    assert [Path(document.name).name for document in answer.stitched.prompt.documents] == ["b.md"]
    assert len(answer.passed_over) == 1
    assert str(gone) in answer.passed_over[0]


def test_weights_that_lack_a_tensor_are_refused(tiny_models: TinyModels, tmp_path: Path) -> None:
    """transformers would make the tensor up at random."""
    import shutil

    from safetensors.torch import load_file, save_file

    model_dir = tmp_path / "partial"
    shutil.copytree(tiny_models.path("llama"), model_dir)
    weights = load_file(model_dir / "model.safetensors")
    del weights["model.layers.1.mlp.down_proj.weight"]
    save_file(weights, model_dir / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelUnsupported, match=r"lack model\.layers\.1\.mlp\.down_proj\.weight and 0 more"):
        load_model(model_dir, choose_device("cpu"), "float32")
