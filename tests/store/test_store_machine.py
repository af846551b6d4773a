"""Any sequence of writes leaves the store equal to a dictionary."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from store_samples import IDENTITY, OTHER_RECIPE, audit, make_chain, make_entry, make_position, make_record

from store import (
    ChunkStore,
    DocumentEntry,
    Fault,
    MissingChunk,
    MissingDocument,
    Rules,
    check_store,
    compact_store,
    pin_documents,
    pinned_documents,
    unpin_documents,
)
from store.eviction import by_importance
from store.room import drop_records

RECORDS = [make_record(10 * seed, layer_bytes=[40, 600, 9000][seed % 3]) for seed in range(8)]
POSITIONS = [make_position(seed) for seed in range(3)]
CHAIN = make_chain(*range(0, 50, 10))
SIZES = {record.key: record.header.total_bytes for record in [*RECORDS, *CHAIN]}
NAMES = st.sampled_from(["/a", "/b", "/n\udcff", "/long" * 300])
CHUNKS = st.lists(st.integers(0, len(RECORDS) - 1), max_size=5)


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def create(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "store"
        self.store = ChunkStore.create(self.path, IDENTITY)
        self.documents: dict[str, DocumentEntry] = {}
        self.positions: set[bytes] = set()
        self.pins: set[str] = set()
        self.evicted: set[bytes] = set()

    @property
    def live_keys(self) -> set[bytes]:
        return {key for entry in self.documents.values() for key in entry.chunk_keys}

    @property
    def live_positions(self) -> set[bytes]:
        return {key for entry in self.documents.values() for key in entry.position_keys}

    @rule(
        name=NAMES,
        numbers=CHUNKS,
        given=st.sets(st.integers(0, len(RECORDS) - 1)),
        links=st.integers(0, len(CHAIN)),
        given_links=st.integers(0, len(CHAIN)),
    )
    def put_document(self, name, numbers, given, links, given_links):
        entry = make_entry(name, [RECORDS[number] for number in numbers], CHAIN[:links])
        records = [RECORDS[number] for number in sorted(given & set(numbers))] + CHAIN[: min(links, given_links)]
        named = {*entry.chunk_keys, *entry.position_keys}
        missing = named - self.live_keys - self.live_positions - {record.key for record in records}
        if not missing:
            self.store.put_document(entry, records)
            self.documents[name] = entry
            self.evicted -= {record.key for record in records}
            return
        with pytest.raises(MissingChunk) as caught:
            self.store.put_document(entry, records)
        assert caught.value.key in missing

    @rule(name=NAMES)
    def remove_document(self, name):
        assert self.store.remove_document(name) == (self.documents.pop(name, None) is not None)
        self.pins.discard(name)

    @rule(name=NAMES)
    def pin(self, name):
        if name in self.documents:
            pin_documents(self.store, [name])
            self.pins.add(name)
            return
        with pytest.raises(MissingDocument):
            pin_documents(self.store, [name])

    @rule(name=NAMES)
    def unpin(self, name):
        assert unpin_documents(self.store, [name]) == (name in self.pins)
        self.pins.discard(name)

    @rule(num_bytes=st.sampled_from([1, 2000, 30_000, 10**6]))
    def evict(self, num_bytes):
        """Whatever goes is not pinned, is enough if there is enough, and is remembered."""
        pinned = {key for name in self.pins for key in self.keys_of(self.documents[name])}
        before = {key for key in self.named if self.is_stored(key)}
        freed = drop_records(self.store._environment, num_bytes, by_importance)
        gone = {key for key in before if not self.is_stored(key)}
        assert not gone & pinned
        assert freed == sum(SIZES[key] for key in gone)
        assert freed >= min(num_bytes, sum(SIZES[key] for key in before - pinned))
        self.evicted |= gone

    def is_stored(self, key):
        with self.store.snapshot() as snapshot:
            return bool(snapshot.header(key) or snapshot.position_header(key))

    @staticmethod
    def keys_of(entry):
        return {*entry.chunk_keys, *entry.position_keys}

    @property
    def named(self) -> set[bytes]:
        return self.live_keys | self.live_positions

    @rule(name=NAMES, mtime_ns=st.integers(0, 9))
    def touch_document(self, name, mtime_ns):
        if name in self.documents:
            self.documents[name] = replace(self.documents[name], mtime_ns=mtime_ns)
            self.store.touch_document(self.documents[name])
            return
        with pytest.raises(MissingDocument):
            self.store.touch_document(make_entry(name, []))

    @rule(record=st.sampled_from(POSITIONS))
    def put_position(self, record):
        expected = 0 if record.key in self.positions else record.header.total_bytes
        assert self.store.put_position(record) == expected
        self.positions.add(record.key)

    @rule()
    def replace_identity(self):
        self.store.replace_identity(OTHER_RECIPE)
        self.store.replace_identity(IDENTITY)
        self.positions.clear()
        for name, entry in self.documents.items():
            self.documents[name] = replace(entry, position_keys=())

    @rule()
    def compact(self):
        compact_store(self.store)

    @rule()
    def check(self):
        assert not [found for found in check_store(self.store, Rules()) if isinstance(found, Fault)]

    @rule(readonly=st.booleans())
    def reopen(self, readonly):
        self.store.close()
        audit(self.path)
        if readonly:
            ChunkStore.open(self.path, readonly=True).close()
        self.store = ChunkStore.open(self.path)

    @invariant()
    def equals_the_model(self):
        if not hasattr(self, "store"):
            return
        with self.store.snapshot() as snapshot:
            assert {entry.name: entry for entry in snapshot.documents()} == self.documents
            self.evicted &= self.named
            missing = snapshot.missing([record.key for record in RECORDS])
            present = [record for record in RECORDS if record.key not in missing]
            assert {record.key for record in present} == self.live_keys - self.evicted
            known = {record.key: snapshot.token_ids(record.key) for record in RECORDS}
            assert {key: ids for key, ids in known.items() if ids} == {
                record.key: record.header.token_ids for record in RECORDS if record.key in self.live_keys
            }
            assert all(snapshot.verify(record.key, record.header) for record in present)
            stored = {record.key for record in POSITIONS if snapshot.position_header(record.key)}
            assert stored == self.positions
            absent = snapshot.missing_positions([record.key for record in CHAIN])
            assert {record.key for record in CHAIN} - set(absent) == self.live_positions - self.evicted
            assert {key for key in self.named if snapshot.is_evicted(key)} == self.evicted
        stats = self.store.stats()
        assert (stats.num_documents, stats.num_chunks) == (len(self.documents), len(self.live_keys - self.evicted))
        assert stats.num_evicted == len(self.live_keys & self.evicted)
        assert set(pinned_documents(self.store)) == self.pins

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            assert audit(self.path) == set(self.documents)
            self.directory.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
