"""Keys of chunks: what was computed, by which model, in which way.

Both keys are blake3 over canonical bytes. A field is its length as a little-endian u64, then its bytes,
so that no two lists of fields share one encoding. The first field names the kind of key. Token ids are
little-endian u32.
"""

import struct
from collections.abc import Sequence

from blake3 import blake3

KEY_BYTES = 32
CONTENT_DOMAIN = b"kvboost/content-key/1"
POSITIONAL_DOMAIN = b"kvboost/positional-key/1"


def content_key(fingerprint: bytes, recipe: bytes, token_ids: Sequence[int]) -> bytes:
    """The 32 bytes that name a chunk whatever stands before it.

    >>> content_key(bytes(32), bytes(32), [1, 2, 3]).hex()
    '8c39e536b34b44c61c470a759b9be322d0c89de5fff88c211ad74f716ae26340'

    hashes these bytes (lengths in decimal):
    `21 "kvboost/content-key/1"  32 fingerprint  32 recipe  12 01000000 02000000 03000000`.
    Raises ValueError if a token id does not fit into 32 bits.
    """
    return _hash_fields(CONTENT_DOMAIN, fingerprint, recipe, pack_token_ids(token_ids))


def positional_key(parent: bytes, fingerprint: bytes, recipe: bytes, token_ids: Sequence[int]) -> bytes:
    """The 32 bytes that name a run of tokens at its place behind everything before it.

    `parent` is the positional key of what stands before: b"" for the preamble.

    >>> preamble = positional_key(b"", bytes(32), bytes(32), [0])
    >>> positional_key(preamble, bytes(32), bytes(32), [1, 2, 3]).hex()
    'f844fc71273c285674c93ae5c8d55ca59b47f2b045b7993fb29e0887b1e8e1a5'

    Raises ValueError if a token id does not fit into 32 bits.
    """
    return _hash_fields(POSITIONAL_DOMAIN, parent, fingerprint, recipe, pack_token_ids(token_ids))


def pack_token_ids(token_ids: Sequence[int]) -> bytes:
    """Token ids as little-endian u32.

    >>> pack_token_ids([1, 258]).hex()
    '0100000002010000'
    """
    try:
        return struct.pack(f"<{len(token_ids)}I", *token_ids)
    except struct.error as error:
        raise ValueError(f"token ids must be integers from 0 to 4294967295: {error}") from None


def unpack_token_ids(data: bytes | memoryview) -> tuple[int, ...]:
    """The inverse of `pack_token_ids`."""
    return struct.unpack(f"<{len(data) // 4}I", data)


def _hash_fields(*fields: bytes) -> bytes:
    hasher = blake3()
    for field in fields:
        hasher.update(struct.pack("<Q", len(field)))
        hasher.update(field)
    return hasher.digest()
