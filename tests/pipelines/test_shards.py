"""A collection that is indexed in shards and merged is the same as one that was indexed whole."""

import random
from pathlib import Path

import pytest
from carrying import contents, copy_documents, export_bundle, import_bundle, import_store, other_desk
from hypothesis import given
from hypothesis import strategies as st
from samples import Desk, make_text

from kvboost_cli.pipelines.indexing import InOtherShard
from kvboost_cli.pipelines.shards import Shard

NUM_SHARDS = 3


@given(st.text(), st.integers(1, 40))
def test_every_document_is_in_exactly_one_shard(title: str, count: int) -> None:
    assert sum(Shard(number, count).has(title) for number in range(1, count + 1)) == 1


def test_shards_are_of_about_the_same_size() -> None:
    titles = [f"chapter-{number}/page.md" for number in range(4000)]
    sizes = [sum(Shard(number, 8).has(title) for title in titles) for number in range(1, 9)]
    assert min(sizes) > 400, "500 each, and five standard deviations"


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "-1/2", "1/0", "1/2/3", "a/b", "1.0/2", "\u0661/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a shard is"):
        Shard.parse(text)


@pytest.fixture
def collection(desk: Desk) -> Desk:
    """Ten documents without a chunk in common; some give fillers, one is too short to."""
    for number in range(10):
        desk.write(f"{number % 3}/{number}.md", make_text(number, 1 + number % 4))
    desk.write("short.md", "A few words.\n")
    return desk


def index_shards(collection: Desk) -> list[Desk]:
    """Each shard on a machine of its own, where the folder is at another place."""
    desks = [other_desk(collection, f"machine{number}") for number in range(1, NUM_SHARDS + 1)]
    for number, desk in enumerate(desks, 1):
        copy_documents(collection, desk)
        tally, events = desk.index(shard=Shard(number, NUM_SHARDS))
        elsewhere = [event for event in events if isinstance(event, InOtherShard)]
        assert tally.changes["added"] + len(elsewhere) == tally.num_documents + tally.num_elsewhere == 11
    return desks


def test_merged_shards_are_the_unsharded_store_record_for_record(collection: Desk, tmp_path: Path) -> None:
    collection.index()
    whole = contents(collection.root / "store")
    desks = index_shards(collection)
    merged = other_desk(collection, "merged")
    for desk in desks:
        export_bundle(desk, tmp_path / "shard.kvb")
        import_bundle(merged, tmp_path / "shard.kvb")
    result = contents(merged.root / "store")
    assert result.records == whole.records
    assert result.fillers == whole.fillers
    assert sorted(result.documents) == sorted(f"docs/{name}" for name in collection.names())


def test_shards_that_see_one_folder_merge_into_a_store_that_indexes_on(collection: Desk) -> None:
    """As on machines that share a file system: names are kept, so nothing is left to do."""
    shards = [other_desk(collection, f"machine{number}") for number in range(1, NUM_SHARDS + 1)]
    for number, desk in enumerate(shards, 1):
        desk.index(collection.docs, shard=Shard(number, NUM_SHARDS))
    order = random.Random(3).sample(shards, NUM_SHARDS)
    for desk in order:
        import_store(collection, desk.root / "store")
    merged = contents(collection.root / "store")
    tally, _events = collection.index()
    assert (tally.changes["unchanged"], tally.num_planned) == (11, 0)
    whole = other_desk(collection, "whole")
    whole.index(collection.docs)
    assert contents(whole.root / "store") == merged


def test_a_shard_is_indexed_again_without_looking_into_the_others(collection: Desk) -> None:
    shard = Shard(1, NUM_SHARDS)
    first, _events = collection.index(shard=shard)
    again, _events = collection.index(shard=shard)
    assert (again.changes["unchanged"], again.num_planned) == (first.changes["added"], 0)
    collection.index()
    again, _events = collection.index(shard=shard)
    assert again.changes["unchanged"] == first.changes["added"], "those of other shards are not counted"
