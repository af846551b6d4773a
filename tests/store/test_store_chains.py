"""Chains over several documents: counted beside the documents, cut where a document changes, and gone with it."""

from dataclasses import replace

import pytest
from store_contract import A, B
from store_samples import (
    IDENTITY,
    OTHER_RECIPE,
    audit,
    make_chain,
    make_entry,
    make_position,
    make_record,
    overwrite,
    raw_items,
)

from store import (
    AskEntry,
    ChainedDocument,
    ChainEntry,
    ChunkStore,
    Extent,
    Rules,
    check_store,
    compact_store,
    drop_chains,
    extent_of,
    forget_documents,
    prune_orphans,
    put_chain,
    repair_store,
)

C = make_record(77)
PREAMBLE = make_position(500)
LINKS = make_chain(11, 21, 31, 41)
"""The first is of /a, two of /b, the last of /c."""
ENTRIES = [make_entry("/a", [A], LINKS[:1]), make_entry("/b", [B, C]), make_entry("/c", [C])]
ASK = AskEntry(1.0, "m", "none", 1, 1, 0, 0, 0, 1, 0.5, 1, 0, 0, None, ("/a", "/b"))


def chain_of(*sizes):
    documents = tuple(ChainedDocument(name, size) for name, size in zip(("/a", "/b", "/c"), sizes, strict=False))
    return ChainEntry(PREAMBLE.key, documents, tuple(record.key for record in LINKS[: sum(sizes)]))


WHOLE = chain_of(1, 2, 1)


@pytest.fixture
def store(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(ENTRIES[0], [A, LINKS[0]])
        store.put_document(ENTRIES[1], [B, C])
        store.put_document(ENTRIES[2], [])
        store.put_position(PREAMBLE)
        assert put_chain(store, WHOLE, ENTRIES, LINKS[1:])
        yield store


def chains(store):
    with store.snapshot() as snapshot:
        return list(snapshot.chains())


def stored_links(store):
    with store.snapshot() as snapshot:
        return [record for record in LINKS if snapshot.position_header(record.key) is not None]


def faults(store):
    return [fault for fault in check_store(store, Rules()) if hasattr(fault, "kind")]


def test_a_chain_is_stored_once_and_counted(store):
    assert put_chain(store, WHOLE, ENTRIES, []) == 0
    assert chains(store) == [WHOLE]
    assert stored_links(store) == LINKS
    assert faults(store) == []
    assert prune_orphans(store) == (Extent(), 0)
    store.close()
    assert audit(store.path) == {"/a", "/b", "/c"}


@pytest.mark.parametrize(("name", "kept"), [("/a", None), ("/b", chain_of(1)), ("/c", chain_of(1, 2))])
def test_a_changed_document_cuts_the_chain_at_its_place(store, name, kept):
    other = make_record(901)
    store.put_document(make_entry(name, [other]), [other])
    assert chains(store) == ([kept] if kept else [])
    assert stored_links(store) == LINKS[: 0 if kept is None else len(kept.position_keys)]
    assert faults(store) == []
    store.close()
    audit(store.path)


def test_a_removed_document_cuts_the_chain_and_a_touched_one_does_not(store):
    store.touch_document(replace(ENTRIES[1], mtime_ns=6))
    store.put_document(replace(ENTRIES[0], mtime_ns=6), [])
    assert chains(store) == [WHOLE]
    store.remove_document("/b")
    assert chains(store) == [chain_of(1)]
    assert stored_links(store) == LINKS[:1]


def test_a_cut_chain_that_is_there_already_is_not_counted_twice(store):
    shorter = chain_of(1, 2)
    put_chain(store, shorter, ENTRIES, [])
    store.remove_document("/c")
    assert chains(store) == [shorter]
    drop_chains(store, [shorter.key])
    assert (chains(store), stored_links(store)) == ([], LINKS[:1])
    store.close()
    audit(store.path)


def test_what_a_removal_would_free_has_the_links_behind_the_document(store):
    sizes = [record.header.total_bytes for record in (B, *LINKS[1:])]
    assert extent_of(store, ["/b"]) == Extent(4, sum(sizes))
    assert extent_of(store, ["/c"]) == Extent(1, LINKS[3].header.total_bytes)
    assert extent_of(store, ["/b", "/c"]) == Extent(5, sum(sizes) + C.header.total_bytes)


def test_a_chain_of_an_old_text_is_not_stored(store):
    drop_chains(store, [WHOLE.key])
    other = make_record(901)
    store.put_document(make_entry("/b", [other]), [other])
    assert put_chain(store, WHOLE, ENTRIES, LINKS[1:]) is None
    assert stored_links(store) == LINKS[:1]


def test_another_recipe_drops_all_chains(store):
    store.replace_identity(OTHER_RECIPE)
    assert (chains(store), stored_links(store)) == ([], [])
    assert faults(store) == []


def test_a_damaged_chain_is_told_and_repaired_with_its_records(store):
    path = store.path
    store.close()
    overwrite(path, "meta", WHOLE.key, WHOLE.to_bytes()[:-1] + b"?")
    with ChunkStore.open(path) as store:
        assert chains(store) == []
        assert WHOLE.key in {fault.key for fault in faults(store)}
        list(repair_store(store, Rules()))
        assert faults(store) == []
        assert stored_links(store) == LINKS[:1]
    audit(path)


def test_a_forgotten_document_leaves_no_chain_behind(store):
    put_chain(store, chain_of(1, 2), ENTRIES, [])
    store.record_ask(replace(ASK, preamble=PREAMBLE.key.hex(), excerpts=(None, (0, 2))))
    told = forget_documents(store, ["/b"], {})
    assert (told.num_records, told.num_kept_records, told.num_asks) == (4, 1, 1)
    assert chains(store) == [chain_of(1)]
    compact_store(store)
    path = store.path
    store.close()
    audit(path)
    data = (path / "data.mdb").read_bytes()
    assert LINKS[0].header.pack() in data
    assert [trace for trace in (b"/b", *(record.header.pack() for record in LINKS[1:])) if trace in data] == []
    assert list(raw_items(path, "asks")) != []
