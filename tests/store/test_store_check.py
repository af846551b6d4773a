"""The check of a whole store finds what is bad and nothing else; the repair drops it and leaves the rest."""

import random
from dataclasses import replace

import pytest
from positions_contract import P, Q
from store_contract import A, B
from store_samples import IDENTITY, audit, flip_byte, make_entry, make_position, make_record, overwrite, raw_items

from store import AskEntry, ChunkStore, Fault, FaultKind, Rules, Step, check_store, compact_store, repair_store
from store.counting import EVERY_KEY, KeyRange, count_named, key_ranges
from store.names import ASK_TOTALS_KEY, BUDGET_KEY, EVICTED_KEY, document_key, meta_key, pin_key
from store.sealed import seal
from store.snapshot import layer_key
from store.writing import CONTENT

C = make_record(77)
PREAMBLE = make_position(10)
ASK = AskEntry(1.0, "m", "none", 1, 1, 0, 0, 0, 1, 0.5, 1, 0, 0, None, ("/a",))


@pytest.fixture
def path(tmp_path):
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A, B, P, Q])
        store.put_document(make_entry("/b", [B, C]), [C])
        store.put_position(PREAMBLE)
        store.record_ask(ASK, {A.key: 0.5})
        store.put_meta("fillers", b"text")
    return tmp_path / "store"


def walk(path, check=check_store, rules=None):
    with ChunkStore.open(path) as store:
        return list(check(store, rules or Rules()))


def faults(path, check=check_store, rules=None):
    return [found for found in walk(path, check, rules) if isinstance(found, Fault)]


def places(found):
    return [(fault.kind, fault.database, fault.key) for fault in found]


def test_a_sound_store_has_no_faults_and_everything_is_looked_at(path):
    found = walk(path)
    assert all(isinstance(step, Step) for step in found)
    entries = {step.database: step.num_entries for step in found}
    assert entries == {
        "chunks": 3, "positions": 3, "documents": 2, "asks": 1, "meta": 2, "refs": 3, "position_refs": 2,
    }  # fmt: skip
    stored = sum(record.header.total_bytes for record in (A, B, C, P, Q, PREAMBLE))
    assert sum(step.num_bytes for step in found if step.database in ("chunks", "positions")) == stored


def sound_header(**changes):
    return replace(A.header, **changes).pack()


BAD_VALUES = {
    "a changed layer": ("chunks", A.key, layer_key(A.key, 1), flip_byte(bytes(A.layers[1]), 3)),
    "a lost layer": ("chunks", A.key, layer_key(A.key, 2), None),
    "a layer too many": ("chunks", A.key, layer_key(A.key, 3), b"more"),
    "a short layer": ("chunks", A.key, layer_key(A.key, 0), bytes(A.layers[0])[:-1]),
    "a changed header": ("chunks", A.key, A.key, flip_byte(A.header.pack(), 40)),
    "a lost header": ("chunks", A.key, A.key, None),
    "a header with other tokens": ("chunks", A.key, A.key, sound_header(token_ids=(9, 9, 9, 9))),
    "a foreign key": ("chunks", b"short", b"short", b"?"),
    "a changed positional layer": ("positions", Q.key, layer_key(Q.key, 0), b"?"),
    "a content record among the positional ones": ("positions", Q.key, Q.key, Q.header.pack()[:0] + A.header.pack()),
    "a changed preamble": ("positions", PREAMBLE.key, layer_key(PREAMBLE.key, 0), b"?"),
    "a changed ask": ("asks", (0).to_bytes(8, "big"), (0).to_bytes(8, "big"), b"?"),
    "changed totals of asks": ("meta", ASK_TOTALS_KEY, ASK_TOTALS_KEY, b"?"),
    "a changed budget": ("meta", BUDGET_KEY, BUDGET_KEY, b"?"),
    "a changed count of evictions": ("meta", EVICTED_KEY, EVICTED_KEY, b"?"),
    "a changed pin": ("meta", pin_key("/a"), pin_key("/a"), seal("/b")),
    "a changed usage": ("usage", A.key, A.key, b"?"),
    "a changed document": ("documents", document_key("/b"), document_key("/b"), b"?"),
    "a changed count": ("refs", A.key, A.key, b"?"),
}


@pytest.mark.parametrize(("database", "place", "key", "value"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_bad_value_is_found_where_it_is_and_repaired_once(path, database, place, key, value):
    before = {name: raw_items(path, name) for name in ("chunks", "positions", "documents", "asks", "refs")}
    overwrite(path, database, key, value)
    found = faults(path)
    assert (FaultKind.DAMAGED, database, place) in places(found)
    assert {fault.kind for fault in found} <= {FaultKind.DAMAGED, FaultKind.ORPHAN, FaultKind.COUNT}
    assert faults(path, repair_store)[0] == found[0]
    assert faults(path) == []
    for name, items in before.items():
        kept = raw_items(path, name)
        assert kept.keys() <= items.keys()
        if name != database and database != "documents":
            assert kept == items, "the rest is as it was"


def test_a_bad_record_that_was_dropped_is_absent_and_can_be_stored_again(path):
    overwrite(path, "chunks", layer_key(A.key, 1), b"?")
    faults(path, repair_store)
    steps = [step for step in walk(path) if isinstance(step, Step)]
    assert sum(step.num_absent for step in steps) == 1
    with ChunkStore.open(path) as store:
        store.put_document(make_entry("/a", [A, B], [P, Q]), [A])
    assert faults(path) == []
    assert audit(path) == {"/a", "/b"}


def test_counts_are_made_right_and_what_no_document_names_is_dropped(path):
    """As a damaged entry leaves it: its document is stored again, and counted twice."""
    overwrite(path, "documents", document_key("/a"), b"?")
    with ChunkStore.open(path) as store:
        store.put_document(make_entry("/a", [A], [P]), [])
    overwrite(path, "usage", b"U" * 32, b"?")
    found = faults(path)
    assert sorted(places(found)) == sorted([
        (FaultKind.COUNT, "refs", A.key), (FaultKind.COUNT, "refs", B.key), (FaultKind.COUNT, "position_refs", P.key),
        (FaultKind.ORPHAN, "position_refs", Q.key), (FaultKind.ORPHAN, "positions", Q.key),
        (FaultKind.ORPHAN, "usage", b"U" * 32),
    ])  # fmt: skip
    faults(path, repair_store)
    assert faults(path) == []
    assert audit(path) == {"/a", "/b"}


def test_a_record_that_is_not_counted_is_counted_again(path):
    overwrite(path, "refs", B.key, None)
    assert places(faults(path)) == [(FaultKind.COUNT, "refs", B.key)]
    faults(path, repair_store)
    audit(path)


@pytest.mark.parametrize("database", ["refs", "position_refs", "usage"])
def test_a_flipped_byte_of_a_number_is_found_and_numbers_without_a_checksum_are_read(path, database):
    [(key, data)] = list(raw_items(path, database).items())[:1]
    for position in range(len(data)):
        overwrite(path, database, key, flip_byte(data, position))
        assert (FaultKind.DAMAGED, database, key) in places(faults(path))
    former = {"usage": data[:16] + data[24:28]}.get(database, data[:-8])
    overwrite(path, database, key, former)
    assert faults(path) == []


def test_rules_of_other_layers_are_applied(path):
    rules = Rules(layer_bytes=lambda header: 601 if header.num_tokens == 4 else None, meta_fault=lambda name, _: name)
    found = faults(path, rules=rules)
    assert {fault.key for fault in found} == {A.key, B.key, C.key, meta_key("fillers")}
    assert found[-1].reason == "fillers"


def test_damage_of_pages_is_told_and_nothing_behind_it_is_trusted(path):
    with ChunkStore.open(path) as store:
        pages = bytearray((path / "data.mdb").read_bytes())
        place = pages.index(P.header.pack()[:30]) // 4096 * 4096
        pages[place : place + 8] = b"\xff" * 8
        (path / "data.mdb").write_bytes(pages)
        found = list(check_store(store, Rules()))
        assert {fault.kind for fault in found} == {FaultKind.PAGE}
        assert found == list(repair_store(store, Rules()))


def test_every_flipped_byte_of_a_value_is_found(path):
    """Bytes of values are flipped in a file without free pages, so that each is there once."""
    with ChunkStore.open(path) as store:
        compact_store(store)
    choose = random.Random(5)
    data = (path / "data.mdb").read_bytes()
    values = [bytes(layer) for record in (A, B, C, P, Q) for layer in record.layers]
    for _ in range(60):
        value = choose.choice(values)
        at = data.index(value[:64]) + choose.randrange(len(value) - 64)
        (path / "data.mdb").write_bytes(flip_byte(data, at))
        assert [fault.kind for fault in faults(path)] == [FaultKind.DAMAGED]
    (path / "data.mdb").write_bytes(data)
    assert faults(path) == []


def test_ranges_of_keys_hold_every_key_once(path):
    ranges = key_ranges(1000, 13)
    assert len(ranges) == 77
    keys = [bytes([first]) + bytes(31) for first in range(256)] + [b"", b"\xff" * 32]
    assert all(sum(key in keys_range for keys_range in ranges) == 1 for key in keys)
    assert key_ranges(0) == key_ranges(200_000) == [EVERY_KEY]
    assert len(key_ranges(10**9)) == 256
    with ChunkStore.open(path) as store, store._environment.read() as txn:
        halves = [KeyRange(b"", b"\x80"), KeyRange(b"\x80", None)]
        assert [key for half in halves for key in txn.record_keys("chunks", *half)] == sorted([A.key, B.key, C.key])
        assert count_named(txn, CONTENT, EVERY_KEY.__contains__) == {A.key: 1, B.key: 2, C.key: 1}
