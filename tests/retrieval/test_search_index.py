"""The search index on real files: relevance, upkeep, order, and names and modes."""

import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvboost_cli.retrieval import Hit, SearchIndex, SearchIndexError, SearchIndexMissing, select_documents

COLLECTION = {
    "bees.md": [
        "A honey bee colony has one queen, who lays up to two thousand eggs a day in early summer.",
        "Workers dance to tell each other where flowers are. The dance gives direction and distance.",
        "In winter the colony forms a cluster and shivers to keep the queen warm.",
    ],
    "bridges.md": [
        "A suspension bridge hangs its deck from cables that run over two towers.",
        "Engineers measure how much a bridge sways in the wind; too much swaying closed one in London.",
    ],
    "bread.md": [
        "Sourdough bread rises by wild yeast and bacteria instead of baker's yeast.",
        "Let the dough rest for an hour, then fold it. Bake the loaf at 230 degrees for forty minutes.",
    ],
    "tides.md": [
        "Tides come from the pull of the moon and, to a lesser degree, of the sun.",
        "Spring tides follow the full and the new moon, neap tides the quarters.",
    ],
    "lmdb.md": [
        "LMDB maps the whole database into memory. One process may write while many read.",
        "A stale reader keeps old pages alive, so the file grows. Call reader_check() at open.",
    ],
    "chinese.md": [
        "\u7f13\u5b58\u4fdd\u5b58\u6ce8\u610f\u529b\u7684\u952e\u548c\u503c\u3002",
        "\u6865\u6881\u5de5\u7a0b\u5e08\u3002",
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "search.sqlite"


@pytest.fixture
def index(path: Path) -> Iterator[SearchIndex]:
    with SearchIndex(path) as made:
        for name, texts in COLLECTION.items():
            made.replace_document(name, f"hash of {name}", texts)
        yield made


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("How many eggs does a queen lay per day?", ("bees.md", 0)),
        ("How do bees tell where the flowers are?", ("bees.md", 1)),
        ("What happens to a colony in winter?", ("bees.md", 2)),
        ("Why was a bridge in London closed?", ("bridges.md", 1)),
        ("what holds up the deck of suspension bridges", ("bridges.md", 0)),
        ("How long should I bake a loaf, and at what temperature?", ("bread.md", 1)),
        ("wild yeasts", ("bread.md", 0)),
        ("When are neap tides?", ("tides.md", 1)),
        ("why does the LMDB file grow", ("lmdb.md", 1)),
        ("reader_check()", ("lmdb.md", 1)),
        ("\u6ce8\u610f\u529b\u662f\u4ec0\u4e48\uff1f", ("chinese.md", 0)),
        ("\u6865", ("chinese.md", 1)),
    ],
)
def test_the_chunk_that_answers_comes_first(index: SearchIndex, question: str, best: tuple[str, int]) -> None:
    hits = index.search(question, 10)
    assert (hits[0].name, hits[0].chunk_index) == best
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert select_documents(hits, 1) == [best[0]]


def test_the_number_of_hits_is_limited(index: SearchIndex) -> None:
    assert len(index.search("the bridge, the queen, the moon, the dough", 3)) == 3
    assert index.search("bridge", 0) == []
    assert index.search("bridge", -1) == []


def test_stop_words_count_only_if_nothing_else_is_left(index: SearchIndex) -> None:
    assert index.search("what is the zeppelin?", 10) == []
    assert index.search("to the", 10) != []


def test_accents_and_case_do_not_matter(path: Path) -> None:
    with SearchIndex(path) as index:
        index.replace_document("a", "h", ["Caf\u00e9 M\u00dcLLER"])
        for question in ("cafe", "CAF\u00c9", "muller", unicodedata.normalize("NFD", "m\u00fcller")):
            assert [hit.name for hit in index.search(question, 5)] == ["a"]


def test_ties_are_ordered_by_name_and_chunk_however_they_came(path: Path) -> None:
    with SearchIndex(path) as index:
        for name in ("c", "a", "b"):
            index.replace_document(name, "h", ["same text", "same text"])
        index.replace_document("other", "h", ["filler"] * 20)
        hits = index.search("text", 5)
        assert [(hit.name, hit.chunk_index) for hit in hits] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0)]


def test_replacing_a_document_leaves_nothing_of_the_old(index: SearchIndex) -> None:
    index.replace_document("bees.md", "new hash", ["Bumblebees live in small nests."])
    assert index.search("queen winter flowers", 10) == []
    assert [(hit.name, hit.chunk_index) for hit in index.search("bumblebees", 10)] == [("bees.md", 0)]
    assert index.document_hashes()["bees.md"] == "new hash"


def test_removing_a_document(index: SearchIndex) -> None:
    index.remove_document("tides.md")
    index.remove_document("never there")
    assert index.search("moon", 10) == []
    assert sorted(index.document_hashes()) == sorted(set(COLLECTION) - {"tides.md"})


def test_the_index_outlives_its_process(index: SearchIndex, path: Path) -> None:
    index.close()
    index.close()
    with SearchIndex(path, readonly=True) as again:
        assert again.document_hashes() == {name: f"hash of {name}" for name in COLLECTION}
        assert again.search("sourdough", 1)[0].name == "bread.md"


def test_a_document_without_chunks_is_known(path: Path) -> None:
    with SearchIndex(path) as index:
        index.replace_document("empty", "h", [])
        assert index.document_hashes() == {"empty": "h"}


def test_a_failed_replacement_changes_nothing(index: SearchIndex) -> None:
    with pytest.raises(AttributeError):
        index.replace_document("bees.md", "new", ["text", None])  # type: ignore[list-item]
    assert index.document_hashes()["bees.md"] == "hash of bees.md"
    assert index.search("queen", 1)[0].name == "bees.md"


def test_names_and_texts_may_hold_anything(path: Path) -> None:
    name = os.fsdecode(b"/docs/caf\xe9'\"\n.md")
    with SearchIndex(path) as index:
        index.replace_document(name, "h", ["lone \udc80 surrogate", "a nul \0 inside", "'quoted\" text"])
        assert index.document_hashes() == {name: "h"}
        for number, word in enumerate(("surrogate", "inside", "quoted")):
            assert [(hit.name, hit.chunk_index) for hit in index.search(word, 5)] == [(name, number)]
        index.remove_document(name)
        assert index.document_hashes() == {}


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_only_the_owner_may_read_the_files(path: Path) -> None:
    with SearchIndex(path) as index:
        index.replace_document("a", "h", ["text"])
        files = sorted(path.parent.glob("search.sqlite*"))
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert [file.name for file in files] == ["search.sqlite", "search.sqlite-shm", "search.sqlite-wal"]


def test_a_reader_makes_no_file_and_changes_none(path: Path) -> None:
    with pytest.raises(SearchIndexMissing, match="no search index: "):
        SearchIndex(path, readonly=True)
    assert not path.exists()
    SearchIndex(path).close()
    with SearchIndex(path, readonly=True) as reader, pytest.raises(SearchIndexError, match="readonly"):
        reader.replace_document("bees.md", "h", [])


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_index_in_a_folder_without_write_access_is_read(index: SearchIndex, path: Path) -> None:
    index.close()
    path.parent.chmod(0o500)
    try:
        with SearchIndex(path, readonly=True) as reader:
            assert reader.search("sourdough", 1)[0].name == "bread.md"
    finally:
        path.parent.chmod(0o700)


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(SearchIndexError, match="cannot be opened, No such file or directory: "):
        SearchIndex(tmp_path / "nowhere" / "search.sqlite")


@pytest.mark.parametrize("name", ["a b?c#d%20.sqlite", "\u7f13\u5b58.sqlite", os.fsdecode(b"caf\xe9.sqlite")])
def test_a_path_may_be_odd(tmp_path: Path, name: str) -> None:
    with SearchIndex(tmp_path / name) as index:
        index.replace_document("a", "h", ["text"])
    with SearchIndex(tmp_path / name, readonly=True) as index:
        assert index.search("text", 1)[0].name == "a"
    assert {entry.removesuffix("-wal").removesuffix("-shm") for entry in os.listdir(tmp_path)} == {name}


def test_documents_are_ordered_by_their_best_chunk() -> None:
    hits = [Hit("a", 0, 1.0), Hit("b", 0, 2.0), Hit("a", 1, 3.0), Hit("d", 0, 2.0), Hit("c", 0, 0.5)]
    assert select_documents(hits, 3) == ["a", "b", "d"]
    assert select_documents(hits, 9) == ["a", "b", "d", "c"]
    assert select_documents(hits, 0) == select_documents(hits, -1) == select_documents([], 3) == []
