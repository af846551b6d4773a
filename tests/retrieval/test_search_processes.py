"""Two processes on one index, and an index that is damaged."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kvboost_cli.retrieval import (
    SearchIndex,
    SearchIndexBusy,
    SearchIndexDamaged,
    SearchIndexError,
    remove_index,
)

WRITER = """
import sys
from kvboost_cli.retrieval import SearchIndex
with SearchIndex(sys.argv[1]) as index:
    for number in range(int(sys.argv[3])):
        index.replace_document(f"{sys.argv[2]}{number % 20}", str(number), [f"common text {number}"] * 5)
        print(number, flush=True)
"""


def start_writer(path: Path, prefix: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", "-c", WRITER, str(path), prefix, str(count)]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "search.sqlite"


def fill(path: Path) -> None:
    with SearchIndex(path) as index:
        for number in range(50):
            index.replace_document(f"d{number}", "h", [f"text {number} " + "word " * 50] * 10)


def test_a_reader_sees_whole_documents_while_another_process_writes(path: Path) -> None:
    SearchIndex(path).close()
    with start_writer(path, "w", 300) as writer, SearchIndex(path, readonly=True) as reader:
        assert writer.stdout is not None
        for _ in writer.stdout:
            hits = reader.search("common", 1000)
            assert len(hits) % 5 == 0
        assert writer.wait() == 0, writer.stderr
        assert len(reader.document_hashes()) == 20


def test_two_writers_take_turns(path: Path) -> None:
    writers = [start_writer(path, prefix, 100) for prefix in "ab"]
    for writer in writers:
        _, errors = writer.communicate()
        assert (writer.returncode, errors) == (0, "")
    with SearchIndex(path, readonly=True) as index:
        assert len(index.document_hashes()) == 40
        assert len(index.search("common", 1000)) == 200


def test_a_killed_writer_leaves_whole_documents(path: Path) -> None:
    with start_writer(path, "w", 100_000) as writer:
        assert writer.stdout is not None
        for _ in range(50):
            writer.stdout.readline()
        writer.kill()
    with SearchIndex(path) as index:
        assert len(index.search("common", 1000)) == 5 * len(index.document_hashes()) == 100


def test_a_lock_that_is_held_too_long_is_told(path: Path) -> None:
    fill(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with SearchIndex(path, wait_s=0.05) as index:
            assert index.search("text", 1)
            with pytest.raises(SearchIndexBusy, match="locked by another process: "):
                index.replace_document("d1", "h", ["x"])
    finally:
        other.close()


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("content", [b"not a database at all" * 400, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_database_is_damaged(path: Path, content: bytes, readonly: bool) -> None:
    path.write_bytes(content)
    with pytest.raises(SearchIndexDamaged, match=rf"a damaged search index: {path}"):
        SearchIndex(path, readonly=readonly)
    assert path.read_bytes() == content


@pytest.mark.parametrize("readonly", [True, False])
def test_a_blank_file_is_no_index(path: Path, readonly: bool) -> None:
    path.touch()
    with pytest.raises(SearchIndexDamaged, match="not a search index of version 1: "):
        SearchIndex(path, readonly=readonly)


def test_another_database_or_version_is_refused_untouched(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    for readonly in (True, False):
        with pytest.raises(SearchIndexDamaged, match="not a search index of version 1: "):
            SearchIndex(path, readonly=readonly)
    assert path.read_bytes() == before
    remove_index(path)
    fill(path)
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(SearchIndexDamaged):
        SearchIndex(path)


def use(path: Path) -> None:
    """Everything a caller does."""
    with SearchIndex(path) as index:
        index.document_hashes()
        index.search("text word", 1000)
        for number in range(50):
            index.replace_document(f"d{number}", "h2", ["new text"] * 20)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_index_is_damaged(path: Path, keep: float) -> None:
    fill(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) // 4096 * 4096])
    with pytest.raises(SearchIndexDamaged):
        use(path)


@pytest.mark.parametrize("page", range(1, 24))
def test_a_page_of_rubbish_is_damage_or_goes_unread(path: Path, page: int) -> None:
    fill(path)
    data = bytearray(path.read_bytes())
    assert len(data) > 24 * 4096
    data[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    try:
        use(path)
    except SearchIndexDamaged:
        remove_index(path)
        fill(path)
        use(path)


def test_an_index_can_be_removed_and_made_again(path: Path) -> None:
    fill(path)
    kept_open = SearchIndex(path)
    assert len(list(path.parent.iterdir())) > 1
    kept_open.close()
    remove_index(path)
    assert list(path.parent.iterdir()) == []
    remove_index(path)
    fill(path)


def test_a_closed_index_is_a_programmers_error(path: Path) -> None:
    index = SearchIndex(path)
    index.close()
    with pytest.raises(sqlite3.ProgrammingError):
        index.document_hashes()


def test_errors_name_the_fact_and_the_file_last() -> None:
    error = SearchIndexError("a fact", "/store/search.sqlite")
    assert str(error) == "a fact: /store/search.sqlite"
    assert (error.reason, error.path) == ("a fact", "/store/search.sqlite")
