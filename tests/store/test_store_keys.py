"""Keys are fixed: stored chunks are found again by every later version."""

import doctest
import importlib
import struct

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from store import content_key, positional_key

FINGERPRINT, RECIPE = bytes(range(32)), bytes(range(32, 64))
TOKEN_IDS = st.lists(st.integers(0, 2**32 - 1), max_size=20)


def naive(domain: bytes, *fields: bytes) -> bytes:
    return blake3(b"".join(struct.pack("<Q", len(field)) + field for field in (domain, *fields))).digest()


def test_content_key_is_this_very_value():
    key = content_key(FINGERPRINT, RECIPE, [1, 70000, 2**32 - 1])
    assert key.hex() == "ceec9c3cc770059a5f03d6b1c1d52359886019d7b42894e8f8f1f816b36375f0"
    empty = content_key(FINGERPRINT, RECIPE, [])
    assert empty.hex() == "71ede4f258583dba17113d25fa46a8c06ec1ae5836248cbeaa3e2a2f3a1f4c40"


def test_positional_key_is_this_very_value():
    preamble = positional_key(b"", FINGERPRINT, RECIPE, [1])
    assert preamble.hex() == "fe076b4ece0acb6f3e2b125c0bee6378b476136e74998aef031b9cc8c4935bfa"
    chunk = positional_key(preamble, FINGERPRINT, RECIPE, [2, 3])
    assert chunk.hex() == "d2ee4193f2ec481d0d00849ffb6bd945d7359a8f10a7951a3c633393b1c1f6af"


@given(TOKEN_IDS)
def test_keys_hash_the_documented_bytes(token_ids):
    ids = b"".join(struct.pack("<I", token_id) for token_id in token_ids)
    expected = naive(b"kvboost/content-key/1", FINGERPRINT, RECIPE, ids)
    assert content_key(FINGERPRINT, RECIPE, token_ids) == expected
    expected = naive(b"kvboost/positional-key/1", b"parent", FINGERPRINT, RECIPE, ids)
    assert positional_key(b"parent", FINGERPRINT, RECIPE, token_ids) == expected


@given(TOKEN_IDS, TOKEN_IDS)
def test_different_tokens_have_different_keys(some, others):
    same_keys = content_key(FINGERPRINT, RECIPE, some) == content_key(FINGERPRINT, RECIPE, others)
    assert same_keys == (some == others)


def test_every_part_counts():
    keys = {
        content_key(FINGERPRINT, RECIPE, [1]),
        content_key(RECIPE, FINGERPRINT, [1]),
        content_key(FINGERPRINT + RECIPE[:1], RECIPE[1:], [1]),
        positional_key(b"", FINGERPRINT, RECIPE, [1]),
        positional_key(b"x", FINGERPRINT, RECIPE, [1]),
    }
    assert len(keys) == 5


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_a_token_id_beyond_32_bits_is_refused(token_id):
    with pytest.raises(ValueError, match="4294967295"):
        content_key(FINGERPRINT, RECIPE, [token_id])


@pytest.mark.parametrize("name", ["asks", "filesystem", "importance", "keys", "names", "snapshot"])
def test_worked_examples_in_docstrings_hold(name):
    results = doctest.testmod(importlib.import_module(f"store.{name}"))
    assert results.attempted
    assert not results.failed
