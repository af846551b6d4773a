"""Documents with their KV go from store to store, as a bundle or directly, and nothing is encoded again."""

import os
from pathlib import Path

import pytest
from carrying import (
    changes,
    contents,
    copy_documents,
    export_bundle,
    import_bundle,
    import_store,
    other_desk,
    untouched,
)
from samples import Desk, ask_and_keep, ask_request, hit_kinds, make_text

from kvboost_cli.bundle import BundleReader
from kvboost_cli.documents import Skipped
from kvboost_cli.pipelines.asked import reread
from kvboost_cli.pipelines.errors import DocumentGone, DocumentNotFound
from kvboost_cli.pipelines.plan import Hit
from store import ChunkStore


def test_the_same_store_gives_the_same_bytes(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "one.kvb")
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "one.kvb")
    export_bundle(stocked, tmp_path / "two.kvb")
    export_bundle(other, tmp_path / "three.kvb")
    one = (tmp_path / "one.kvb").read_bytes()
    assert (tmp_path / "two.kvb").read_bytes() == one
    assert (tmp_path / "three.kvb").read_bytes() == one, "another data file with the same content"


def test_a_bundle_brings_every_record_as_it_was(stocked: Desk, tmp_path: Path) -> None:
    told = export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    events = import_bundle(other, tmp_path / "all.kvb")
    assert changes(events) == dict.fromkeys(("docs/a.md", "docs/b.md", "docs/sub/copy.md"), "added")
    ours, theirs = contents(stocked.root / "store"), contents(other.root / "store")
    assert theirs.records == ours.records
    assert theirs.fillers == ours.fillers
    assert sum(event.num_records for event in told if not isinstance(event, Skipped)) == len(ours.records)
    assert not any(handle.load_s for handle in other.handles.values()), "no model was loaded"


def test_a_bundle_tells_no_folder_of_its_machine(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    data = (tmp_path / "all.kvb").read_bytes()
    with open(tmp_path / "all.kvb", "rb") as file:
        reader = BundleReader(file, "all.kvb")
        first = next(reader.documents()).entry
    assert (first.name, first.root) == ("docs/a.md", "docs")
    assert str(tmp_path).encode() not in data
    assert str(stocked.model_dir) not in str(reader.identity.recipe_text)


def test_imported_documents_are_asked_and_found_without_their_files(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "all.kvb")
    with other.workspace() as workspace:
        answer = ask_and_keep(workspace, ask_request("docs/a.md", "b.md"))
        assert hit_kinds(answer.stitched) == [{Hit.EXACT}, {Hit.CONTENT}]
        assert [document.title for document in answer.stitched.prompt.documents] == ["a.md", "b.md"]
        assert workspace.search.search("valley river", 5)
    with stocked.workspace() as workspace:
        before = ask_and_keep(workspace, ask_request(stocked.docs / "a.md", stocked.docs / "b.md"))
    assert answer.token_ids == before.token_ids


def test_an_imported_document_that_is_damaged_reads_no_file(
    stocked: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "all.kvb")
    entry = other.entry("docs/b.md")
    other.damage(entry.chunk_keys[0])
    monkeypatch.chdir(stocked.root)  # docs/b.md is a file here
    with other.workspace() as workspace, pytest.raises(DocumentGone, match=r"no file.*docs/b\.md"):
        reread(workspace, "docs/b.md")


def test_chosen_documents_make_a_smaller_bundle(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    export_bundle(stocked, tmp_path / "some.kvb", ["b.md"])
    other = other_desk(stocked, "other")
    assert changes(import_bundle(other, tmp_path / "some.kvb")) == {"docs/b.md": "added"}
    assert (tmp_path / "some.kvb").stat().st_size < (tmp_path / "all.kvb").stat().st_size
    with pytest.raises(DocumentNotFound, match=r"c\.md"):
        export_bundle(stocked, tmp_path / "none.kvb", ["c.md"])


def test_a_second_import_changes_nothing(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "all.kvb")
    with untouched(other.root / "store"):
        assert set(changes(import_bundle(other, tmp_path / "all.kvb")).values()) == {"unchanged"}


def test_the_collection_itself_is_indexed_after_an_import_without_encoding(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    copy_documents(stocked, other)
    import_bundle(other, tmp_path / "all.kvb")
    tally, _events = other.index()
    assert (tally.changes["added"], tally.tokens_encoded, tally.tokens_exact) == (3, 0, 0)


def test_of_two_documents_of_one_name_the_newer_stays_unless_told_otherwise(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "old.kvb", ["b.md"])
    other = other_desk(stocked, "other")
    path = stocked.write("b.md", make_text(5, 3))
    os.utime(path, ns=(1, 1))
    stocked.index()
    export_bundle(stocked, tmp_path / "new.kvb", ["b.md"])
    import_bundle(other, tmp_path / "old.kvb")
    old = contents(other.root / "store")
    assert changes(import_bundle(other, tmp_path / "new.kvb")) == {"docs/b.md": "updated"}
    with untouched(other.root / "store"):
        assert changes(import_bundle(other, tmp_path / "old.kvb")) == {"docs/b.md": "kept"}
    assert changes(import_bundle(other, tmp_path / "old.kvb", replace=True)) == {"docs/b.md": "updated"}
    assert contents(other.root / "store") == old


def test_a_shared_record_arrives_although_the_document_it_came_with_is_not_taken(stocked: Desk, tmp_path: Path) -> None:
    """a.md and its copy share chunks; the bundle has them once, with a.md."""
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "all.kvb")
    newer = other_desk(stocked, "newer")
    newer.write("a.md", make_text(9))
    newer.index(newer.docs / "a.md")
    export_bundle(newer, tmp_path / "newer.kvb")
    last = other_desk(stocked, "last")
    import_bundle(last, tmp_path / "newer.kvb")
    told = changes(import_bundle(last, tmp_path / "all.kvb"))
    assert told == {"docs/a.md": "kept", "docs/b.md": "added", "docs/sub/copy.md": "added"}
    theirs, ours = contents(other.root / "store").records, contents(last.root / "store").records
    wanted = last.entry("docs/sub/copy.md")
    assert all(ours[key] == theirs[key] for key in (*wanted.chunk_keys, *wanted.position_keys))


def test_a_dry_run_tells_and_writes_nothing(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    other.write("z.md", make_text(7))
    other.index()
    with untouched(other.root / "store"):
        told = import_bundle(other, tmp_path / "all.kvb", dry_run=True)
    assert changes(told) == changes(import_bundle(other, tmp_path / "all.kvb"))


def test_paths_are_kept_when_both_sides_say_so(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb", keep_paths=True)
    plain, kept = other_desk(stocked, "plain"), other_desk(stocked, "kept")
    import_bundle(plain, tmp_path / "all.kvb")
    assert "docs/a.md" in contents(plain.root / "store").documents
    import_bundle(kept, tmp_path / "all.kvb", keep_paths=True)
    assert contents(kept.root / "store") == contents(stocked.root / "store")


def test_a_store_is_merged_into_another_with_its_names(stocked: Desk) -> None:
    other = other_desk(stocked, "other")
    other.write("z.md", make_text(7))
    other.index()
    before = contents(other.root / "store")
    events = import_store(other, stocked.root / "store")
    ours, merged = contents(stocked.root / "store"), contents(other.root / "store")
    assert set(changes(events).values()) == {"added"}
    assert merged.documents == {**ours.documents, **before.documents}
    assert merged.records == {**ours.records, **before.records}
    assert merged.fillers == before.fillers, "a store keeps its own"
    with untouched(other.root / "store"):
        assert set(changes(import_store(other, stocked.root / "store")).values()) == {"unchanged"}


def test_records_in_use_elsewhere_survive_an_import_that_replaces_their_document(stocked: Desk, tmp_path: Path) -> None:
    """The counts of documents per record stay right."""
    export_bundle(stocked, tmp_path / "all.kvb")
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "all.kvb")
    with ChunkStore.open(other.root / "store") as store:
        assert store.remove_document("docs/a.md")
    entry = other.entry("docs/sub/copy.md")
    with ChunkStore.open(other.root / "store") as store, store.snapshot() as snapshot:
        assert snapshot.missing(entry.chunk_keys) == []
