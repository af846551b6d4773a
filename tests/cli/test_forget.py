"""`kvboost forget`: afterwards nothing in the store's files is of the document; its file and the rest are untouched."""

import struct
from pathlib import Path

import pytest
from desks import Desk, assert_refused, prose

from store import ChunkStore

SECRET = "The quixotic zyxomma hovers over the fjord of Vlissingen while gherkins effervesce."


@pytest.fixture
def secret(desk: Desk) -> Path:
    """A document that shares its second half with another, and was asked about."""
    common = prose(5, 20)
    desk.write("notes/other.md", common)
    path = desk.write("notes/zyxomma-report.md", "\n\n".join([SECRET] * 30) + "\n\n" + common)
    assert desk.facts("index", "notes")["documents"]["added"] == 2
    desk.facts("ask", "Over which fjord?", "-d", path, "-d", "on-call.md")
    return path


def stored_bytes(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(store.iterdir()))


def token_runs(desk: Desk, path: Path) -> list[bytes]:
    """Stretches of the document's own token ids as headers hold them."""
    with ChunkStore.open(desk.store, readonly=True) as store, store.snapshot() as snapshot:
        entry = snapshot.document(str(path))
        assert entry is not None
        headers = [snapshot.header(key) for key in entry.chunk_keys]
        first = next(header for header in headers if header is not None)
    return [struct.pack("<16I", *first.token_ids[:16])]


def test_its_bytes_are_gone_after_compact(desk: Desk, secret: Path) -> None:
    traces = [b"zyxomma", b"zyxomma-report.md", b"Vlissingen", b"yxomm", *token_runs(desk, secret)]
    before = stored_bytes(desk.store)
    assert [trace in before for trace in traces] == [True, True, True, True, True]
    told = desk.facts("forget", "zyxomma-report.md")
    assert told["documents"] == [str(secret)]
    assert told["records"]["dropped"] > 0
    assert told["records"]["shared"] > 0
    assert told["asks"] == 1
    assert told["compacted"] is None
    desk.facts("compact")
    after = stored_bytes(desk.store)
    assert [trace for trace in traces if trace in after] == []
    assert secret.exists()
    stats = desk.facts("stats")
    assert (stats["documents"], stats["asks"]["count"]) == (9, 1)
    assert desk.facts("doctor", "--check")["healthy"]
    hits = [document["hit"] for document in desk.facts("ask", "Which wave?", "-d", "other.md")["documents"]]
    assert hits == ["exact"]


def test_compact_can_be_had_at_once(desk: Desk, secret: Path) -> None:
    [tokens] = token_runs(desk, secret)
    done = desk.run("forget", secret, "--compact", "-q")
    assert (done.returncode, done.stdout) == (0, "")
    after = stored_bytes(desk.store)
    assert b"zyxomma" not in after
    assert tokens not in after


def test_a_filler_that_came_from_it_is_taken_out(bare_desk: Desk) -> None:
    """The first collection gives the fillers; documents of another one were encoded behind them."""
    first = bare_desk.write("first/secret.md", "\n\n".join([SECRET] * 60))
    bare_desk.run("index", "first", "-q")
    bare_desk.run("index", bare_desk.write("later.md", prose(4)), "-q")
    filler = b"first/secret.md"
    with ChunkStore.open(bare_desk.store, readonly=True) as store, store.snapshot() as snapshot:
        entry = snapshot.document(str(first))
        assert entry is not None
        filler = entry.content_hash.encode()
        assert filler in (snapshot.meta("fillers") or b"")
    told = bare_desk.facts("forget", first, "--compact")
    assert told["fillers"] == 1
    assert filler not in stored_bytes(bare_desk.store)
    assert bare_desk.facts("index", bare_desk.write("last.md", prose(6)))["documents"]["added"] == 1
    assert bare_desk.facts("doctor", "--check")["healthy"]


def test_what_only_past_asks_name_can_be_forgotten(desk: Desk, secret: Path) -> None:
    desk.facts("ask", "Which wave?", "-d", secret)
    secret.unlink()
    assert desk.facts("prune")["documents"]["gone"] == [str(secret)]
    told = desk.facts("forget", secret)
    assert (told["documents"], told["records"]["dropped"]) == ([str(secret)], 0)
    assert told["asks"] == 2
    assert_refused(desk.run("forget", secret), 2, "there is no such document or file")


def test_a_name_that_fits_nothing_or_several_is_refused_and_nothing_is_forgotten(desk: Desk) -> None:
    assert_refused(desk.run("forget", "access.md", "nowhere.md"), 2, "there is no such document or file: nowhere.md")
    text = (desk.docs / "access.md").read_text()
    desk.write("elsewhere/access.md", text)
    desk.run("index", "elsewhere", "-q")
    assert_refused(desk.run("forget", "access.md"), 2, "2 documents end in this name")
    assert desk.facts("stats")["documents"] == 9
