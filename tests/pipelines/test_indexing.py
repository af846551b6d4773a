"""The index flow on real folders with a tiny model: what is read, what is encoded, what is kept."""

import os
from pathlib import Path

import pytest
from samples import Desk, make_text

from kvboost_cli.pipelines.indexing import Planned, Removed
from kvboost_cli.pipelines.prompt import header_ids
from kvboost_cli.pipelines.writer import Encoded, Indexed
from store import RecipeMismatch


def touch(path: Path, seconds: int = 5) -> None:
    """Another modification time."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + seconds * 10**9))


def loads(desk: Desk) -> bool:
    return any(handle.load_s for handle in desk.handles.values())


def forget_model(desk: Desk) -> None:
    desk.handles.clear()


def test_a_new_folder_is_added_whole(desk: Desk) -> None:
    texts = {name: make_text(seed) for seed, name in enumerate(("a.md", "b.txt", "sub/c.rst"))}
    for name, text in texts.items():
        desk.write(name, text)
    tally, events = desk.index()
    assert tally.changes == {"added": 3, "updated": 0, "unchanged": 0, "removed": 0}
    assert desk.names() == ["a.md", "b.txt", "sub/c.rst"]
    assert tally.tokens_encoded == tally.num_missing_tokens > 1500
    assert tally.num_new_chunks > 3
    assert tally.num_reused_chunks == 0
    assert tally.num_done == tally.num_planned == 3
    assert tally.bytes_done == tally.bytes_planned == sum(map(len, texts.values()))
    assert tally.bytes_written > 0
    assert isinstance(events[0], Planned)


def test_no_token_of_a_document_is_lost(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        entry = snapshot.document(str(path))
        assert entry is not None
        headers = [snapshot.header(key) for key in entry.chunk_keys]
        ids = [token for header in headers if header for token in header.token_ids]
        codec = workspace.handle.codec
        assert tuple(ids) == header_ids(codec, "a.md") + codec.token_ids(make_text(1))
        assert all(
            snapshot.verify(key, header) for key, header in zip(entry.chunk_keys, headers, strict=True) if header
        )


def test_an_unchanged_folder_is_neither_read_nor_encoded(desk: Desk) -> None:
    desk.write("a.md", make_text(1))
    first, _ = desk.index()
    forget_model(desk)
    tally, events = desk.index()
    assert tally.changes["unchanged"] == 1
    assert (tally.tokens_encoded, tally.num_planned, tally.bytes_written) == (0, 0, 0)
    assert tally.num_reused_chunks == first.num_new_chunks
    assert [event.was_read for event in events if isinstance(event, Indexed)] == [False]
    assert not loads(desk)


def test_an_edited_document_encodes_only_its_changed_chunks(desk: Desk) -> None:
    text = make_text(1, num_paragraphs=16)
    path = desk.write("a.md", text)
    first, _ = desk.index()
    head, _, rest = text.partition("\n\n")
    desk.write("a.md", f"{head} One more sentence.\n\n{rest}")
    touch(path)
    tally, _ = desk.index()
    assert tally.changes["updated"] == 1
    assert 1 <= tally.num_new_chunks <= 2
    assert tally.num_reused_chunks >= first.num_new_chunks - 3
    assert 0 < tally.tokens_encoded == tally.num_missing_tokens <= 1024 < first.tokens_encoded


def test_chunks_that_an_edit_left_behind_are_dropped(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    desk.write("a.md", make_text(2))
    touch(path)
    desk.index()
    with desk.workspace() as workspace:
        stats, codec = workspace.store.stats(), workspace.handle.codec
        num_tokens = len(header_ids(codec, "a.md")) + len(codec.token_ids(make_text(2)))
        assert (stats.num_documents, stats.num_tokens) == (1, num_tokens)


def test_a_touched_document_is_read_and_found_unchanged(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    forget_model(desk)
    touch(path)
    tally, _ = desk.index()
    assert (tally.changes["unchanged"], tally.num_done, tally.tokens_encoded) == (1, 1, 0)
    assert not loads(desk)
    again, _ = desk.index()
    assert (again.changes["unchanged"], again.num_done) == (1, 0), "the new time was stored"


def test_a_renamed_document_encodes_its_first_chunk_alone(desk: Desk) -> None:
    """Without exact KV: that begins with the name, as the first chunk's record does."""
    desk.exact = False
    desk.write("a.md", make_text(1)).rename(desk.docs / "b.md")
    desk.index()
    (desk.docs / "b.md").rename(desk.docs / "c.md")
    tally, events = desk.index(prune=True)
    assert tally.changes == {"added": 1, "updated": 0, "unchanged": 0, "removed": 1}
    assert tally.num_new_chunks == 1 <= tally.num_reused_chunks
    assert [event.name for event in events if isinstance(event, Removed)] == [str(desk.docs / "b.md")]
    assert desk.names() == ["c.md"]


def test_a_moved_document_encodes_nothing(desk: Desk) -> None:
    """Its name below the folder that is indexed stays the same."""
    desk.exact = False
    desk.write("old/a.md", make_text(1))
    desk.index(desk.docs / "old")
    (desk.docs / "old").rename(desk.docs / "new")
    forget_model(desk)
    tally, _events = desk.index(desk.docs / "new")
    assert (tally.tokens_encoded, tally.num_new_chunks) == (0, 0)
    assert not loads(desk)


def test_a_copy_shares_its_chunks_but_the_first(desk: Desk) -> None:
    desk.write("a.md", make_text(1))
    desk.write("copy.md", make_text(1))
    tally, _ = desk.index()
    assert tally.num_new_chunks == tally.num_reused_chunks + 2 > 2
    (desk.docs / "a.md").unlink()
    desk.index(prune=True)
    assert desk.names() == ["copy.md"]
    unchanged, _ = desk.index()
    assert unchanged.changes["unchanged"] == 1


def test_a_dry_run_tells_and_writes_nothing(desk: Desk) -> None:
    desk.write("a.md", make_text(1))
    desk.write("b.md", make_text(2))
    desk.index()
    (desk.docs / "b.md").unlink()
    desk.write("c.md", make_text(3))
    before = {path.name: path.read_bytes() for path in (desk.root / "store").iterdir() if path.name == "data.mdb"}
    forget_model(desk)
    told, _ = desk.index(dry_run=True, prune=True)
    assert told.changes == {"added": 1, "updated": 0, "unchanged": 1, "removed": 1}
    assert told.tokens_encoded == told.bytes_written == 0
    assert not loads(desk)
    assert desk.names() == ["a.md", "b.md"]
    after = {path.name: path.read_bytes() for path in (desk.root / "store").iterdir() if path.name == "data.mdb"}
    assert after == before
    done, _ = desk.index(prune=True)
    assert (done.changes, done.tokens_encoded) == (told.changes, told.num_missing_tokens)


def test_force_reads_what_seems_unchanged(desk: Desk) -> None:
    path = desk.write("a.md", "alpha " * 200)
    desk.index()
    stat = path.stat()
    desk.write("a.md", "gamma " * 200)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert desk.index()[0].changes["unchanged"] == 1
    assert desk.index(force=True)[0].changes["updated"] == 1


def test_other_bits_are_refused_unless_forced(desk: Desk) -> None:
    desk.write("a.md", make_text(1))
    first, _ = desk.index()
    desk.bits = 4
    with pytest.raises(RecipeMismatch, match="bits is 8 there and 4 here"):
        desk.index()
    tally, _ = desk.index(force=True)
    assert (tally.changes["updated"], tally.num_new_chunks) == (1, first.num_new_chunks)
    assert tally.bytes_written < first.bytes_written
    desk.bits = None
    assert desk.index()[0].changes["unchanged"] == 1, "the store's own settings are taken"


def test_a_long_document_gives_a_sign_of_life_per_window(desk: Desk) -> None:
    desk.write("a.md", make_text(1, num_paragraphs=20))
    tally, events = desk.index()
    signs = [event.num_tokens for event in events if isinstance(event, Encoded)]
    assert len(signs) > 2
    assert max(signs) <= 1536
    assert sum(signs) == tally.tokens_encoded


def test_a_repeated_chunk_within_a_document_is_encoded_once(desk: Desk) -> None:
    desk.write("a.md", "# Head\n\n" + ("token " * 300 + ".\n\n") * 6)
    tally, _ = desk.index()
    assert tally.tokens_encoded == tally.num_missing_tokens


@pytest.mark.parametrize("contexts", [0, 1, 3])
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_every_recipe_indexes(desk: Desk, bits: int, contexts: int) -> None:
    desk.bits, desk.contexts = bits, contexts
    desk.write("a.md", make_text(1, num_paragraphs=3))
    tally, _ = desk.index()
    assert tally.changes["added"] == 1
