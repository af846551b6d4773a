"""Documents, asks and identities survive storage unchanged, or are not believed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_samples import IDENTITY, OTHER_RECIPE, flip_byte, make_entry, make_record
from xxhash import xxh3_64_digest

from store import AskEntry, ChunkRecord, DamagedRecord, DocumentEntry, StoreIdentity
from store.names import document_key

NAMES = st.one_of(
    st.text(min_size=1, max_size=50),
    st.binary(min_size=1, max_size=600).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
COUNT = st.integers(0, 2**40)
TIME_S = st.floats(0, 1e9)


@given(st.builds(
    DocumentEntry, name=NAMES, root=NAMES, size_bytes=COUNT, mtime_ns=st.integers(-(2**62), 2**62),
    content_hash=st.text(), kind=st.text(), recipe=st.text(), num_tokens=COUNT,
    chunk_keys=st.lists(st.binary(min_size=32, max_size=32), max_size=4).map(tuple), indexed_at=TIME_S,
    position_keys=st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple),
))  # fmt: skip
def test_a_document_comes_back_equal(entry):
    assert DocumentEntry.from_bytes(entry.to_bytes()) == entry
    assert 1 <= len(document_key(entry.name)) <= 511


@given(st.builds(
    AskEntry, at=TIME_S, model=st.text(), strategy=st.text(), prompt_tokens=COUNT, exact=COUNT, reused=COUNT,
    repaired=COUNT, prefilled=COUNT, generated=COUNT, ttft_s=TIME_S, documents_exact=COUNT,
    documents_content=COUNT, documents_miss=COUNT, speedup=st.none() | TIME_S,
    documents=st.lists(NAMES, max_size=3).map(tuple),
))  # fmt: skip
def test_an_ask_comes_back_equal(ask):
    assert AskEntry.from_bytes(ask.to_bytes()) == ask


def test_an_identity_comes_back_equal():
    assert StoreIdentity.from_bytes(memoryview(IDENTITY.to_bytes())) == IDENTITY


@given(NAMES, NAMES)
def test_names_have_keys_of_their_own(one, other):
    assert (document_key(one) == document_key(other)) == (one == other)


def test_names_that_are_not_utf8_have_keys_of_their_own():
    assert len({document_key(name) for name in ("/\udcff", "/\udcfe", "/?", "/\ufffd")}) == 4


def test_long_names_that_begin_alike_have_keys_of_their_own():
    keys = {document_key("d/" * 1000 + end) for end in ("a", "b", "")}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {511}


def test_any_changed_byte_is_detected():
    data = make_entry("/a", [make_record(1)]).to_bytes()
    for position in range(len(data)):
        with pytest.raises(DamagedRecord):
            DocumentEntry.from_bytes(flip_byte(data, position))
    with pytest.raises(DamagedRecord):
        DocumentEntry.from_bytes(b"")


def test_other_fields_than_those_of_the_kind_are_detected():
    with pytest.raises(DamagedRecord, match="AskEntry"):
        AskEntry.from_bytes(make_entry("/a", []).to_bytes())
    text = json.dumps([1, 2]).encode()
    with pytest.raises(DamagedRecord, match="StoreIdentity"):
        StoreIdentity.from_bytes(xxh3_64_digest(text)[::-1] + text)


def test_what_cannot_be_stored_cannot_be_made():
    record = make_record(1)
    with pytest.raises(ValueError, match="name"):
        make_entry("", [])
    with pytest.raises(ValueError, match="32 bytes"):
        ChunkRecord(b"short", record.header, record.layers)
    with pytest.raises(ValueError, match="sizes"):
        ChunkRecord(record.key, record.header, record.layers[1:])


def test_differences_of_recipes_are_told_by_setting():
    assert IDENTITY.recipe_differences(OTHER_RECIPE) == (("bits", 8, 4),)
    unexplained = StoreIdentity(b"F" * 32, "m", b"S" * 32, IDENTITY.recipe_text)
    assert IDENTITY.recipe_differences(unexplained) == (("recipe", "52" * 6, "53" * 6),)
