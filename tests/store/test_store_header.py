"""The header of a chunk survives storage unchanged, or is not believed."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_samples import flip_byte, make_record
from xxhash import xxh3_64_intdigest

from store import ChunkHeader, DamagedRecord, UnknownFormat, build_record

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


@st.composite
def headers(draw):
    num_layers, token_ids = draw(st.integers(0, 5)), draw(st.lists(U32, max_size=9))
    positional = draw(st.booleans())
    rotated = positional and draw(st.booleans())
    layer_numbers = st.lists(U64, min_size=num_layers, max_size=num_layers).map(tuple)
    hashes = st.binary(min_size=32, max_size=32)
    return ChunkHeader(
        fingerprint=draw(hashes), recipe=draw(hashes), dtype=draw(st.sampled_from(["bfloat16", "float32"])),
        bits=draw(st.sampled_from([4, 8, 16])), group=draw(U32), num_layers=num_layers, kv_heads=draw(U32),
        num_tokens=len(token_ids), key_dim=draw(U32), value_dim=draw(U32), token_ids=tuple(token_ids),
        layer_bytes=draw(layer_numbers), layer_checksums=draw(layer_numbers),
        positional=positional, rotated=rotated, start=draw(U32) if rotated else 0,
        kept_indices=draw(st.binary(max_size=9)),
    )  # fmt: skip


@given(headers())
def test_a_header_comes_back_equal(header):
    packed = header.pack()
    assert ChunkHeader.unpack(packed) == header
    assert ChunkHeader.unpack(memoryview(packed)) == header
    assert header.total_bytes == len(packed) + sum(header.layer_bytes)


@given(headers(), st.data())
def test_any_changed_byte_is_detected(header, data):
    packed = header.pack()
    position, bits = data.draw(st.integers(0, len(packed) - 1)), data.draw(st.integers(1, 255))
    changed = packed[:position] + bytes([packed[position] ^ bits]) + packed[position + 1 :]
    with pytest.raises(DamagedRecord):
        ChunkHeader.unpack(changed)


def test_each_byte_of_a_header_counts():
    packed = make_record(1).header.pack()
    for position in range(len(packed)):
        with pytest.raises(DamagedRecord):
            ChunkHeader.unpack(flip_byte(packed, position))


def test_lost_and_added_bytes_are_detected():
    packed = make_record(1).header.pack()
    for length in range(len(packed)):
        with pytest.raises(DamagedRecord):
            ChunkHeader.unpack(packed[:length])
    with pytest.raises(DamagedRecord):
        ChunkHeader.unpack(packed + b"\0")


def sign(packed: bytes) -> bytes:
    return packed[:4] + struct.pack("<Q", xxh3_64_intdigest(packed[12:])) + packed[12:]


def test_a_later_version_is_told_from_damage():
    packed = make_record(1).header.pack()
    with pytest.raises(UnknownFormat, match="2"):
        ChunkHeader.unpack(sign(packed[:12] + struct.pack("<H", 2) + packed[14:]))
    with pytest.raises(UnknownFormat, match="flags 4"):
        ChunkHeader.unpack(sign(packed[:14] + struct.pack("<H", 4) + packed[16:]))


@pytest.mark.parametrize("offset", [100, 104, 108, 112, 116, 132])
def test_sizes_that_do_not_add_up_are_detected_behind_a_right_checksum(offset):
    packed = make_record(1).header.pack()
    wrong = sign(packed[:offset] + struct.pack("<I", 2**31) + packed[offset + 4 :])
    if offset in (104, 112):  # group and kv_heads say nothing about the size of the header
        assert ChunkHeader.unpack(wrong).num_tokens == 4
    else:
        with pytest.raises(DamagedRecord):
            ChunkHeader.unpack(wrong)


def test_the_format_is_this_very_value():
    header = ChunkHeader(
        fingerprint=b"F" * 32, recipe=b"R" * 32, dtype="float16", bits=4, group=32, num_layers=1, kv_heads=2,
        num_tokens=2, key_dim=64, value_dim=32, token_ids=(1, 2), layer_bytes=(5,), layer_checksums=(6,),
        positional=True, rotated=True, start=3, kept_indices=b"k",
    )  # fmt: skip
    assert header.pack().hex() == (
        "4b5642430b8f5e78bbffcb9801000300a100000046464646464646464646464646464646464646464646464646464646"
        "464646465252525252525252525252525252525252525252525252525252525252525252666c6f617431360000000000"
        "000000000400000020000000010000000200000002000000400000002000000003000000010000000100000002000000"
        "050000000000000006000000000000006b"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"num_tokens": 5}, {"num_layers": 2}, {"layer_bytes": (1,)}, {"bits": 5}, {"fingerprint": b"short"},
     {"dtype": ""}, {"dtype": "a name of 17 char"}, {"start": 4}, {"rotated": True}],
)  # fmt: skip
def test_a_header_that_contradicts_itself_cannot_be_made(wrong):
    with pytest.raises(ValueError, match="contradicts itself"):
        replace(make_record(1).header, **wrong)


def test_build_record_counts_and_checks_the_layers():
    layers = [b"abc", memoryview(b"defgh")]
    record = build_record(
        b"k" * 32, layers, fingerprint=b"F" * 32, recipe=b"R" * 32, dtype="float32", bits=16, group=32,
        kv_heads=1, key_dim=2, value_dim=3, token_ids=[5, 6, 7],
    )  # fmt: skip
    assert (record.header.num_layers, record.header.num_tokens, record.header.layer_bytes) == (2, 3, (3, 5))
    assert record.header.layer_checksums == tuple(xxh3_64_intdigest(layer) for layer in layers)
    assert not record.header.positional
    assert not record.header.rotated


def test_rotated_keys_without_a_place_are_damage_behind_a_right_checksum():
    packed = make_record(1).header.pack()
    with pytest.raises(DamagedRecord, match="positional"):
        ChunkHeader.unpack(sign(packed[:14] + struct.pack("<H", 1) + packed[16:]))
