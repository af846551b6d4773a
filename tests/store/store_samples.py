"""Small records, and ways to look into a store and to harm it behind its back."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import lmdb

from store import (
    ChainEntry,
    ChunkHeader,
    ChunkRecord,
    DocumentEntry,
    StoreIdentity,
    build_record,
    content_key,
    positional_key,
)
from store.names import CHAIN_PREFIX

ROOT = Path(__file__).resolve().parents[2]
NUM_LAYERS = 3
IDENTITY = StoreIdentity(b"F" * 32, "org/small-model", b"R" * 32, {"bits": 8, "group": 64, "contexts": 2})
OTHER_MODEL = StoreIdentity(b"G" * 32, "org/large-model", b"R" * 32, {"bits": 8, "group": 64, "contexts": 2})
OTHER_RECIPE = StoreIdentity(b"F" * 32, "org/small-model", b"S" * 32, {"bits": 4, "group": 64, "contexts": 2})


def make_record(seed: int, *, layer_bytes: int = 600, identity: StoreIdentity = IDENTITY) -> ChunkRecord:
    """A content record of 4 tokens, its key and bytes made from `seed`."""
    token_ids = [seed, seed + 1, seed + 2, 7]
    key = content_key(identity.fingerprint, identity.recipe, token_ids)
    return build_record(key, _layers(seed, layer_bytes), token_ids=token_ids, **_facts(identity))


def make_position(seed: int, *, start: int = 9, identity: StoreIdentity = IDENTITY) -> ChunkRecord:
    """A positional record of rotated keys, as a preamble has it; no document names it."""
    token_ids = [seed, seed + 1]
    key = positional_key(b"", identity.fingerprint, identity.recipe, token_ids)
    facts = {"positional": True, "rotated": True, "start": start, **_facts(identity)}
    return build_record(key, _layers(seed, 300), token_ids=token_ids, **facts)


def make_chain(*seeds: int, identity: StoreIdentity = IDENTITY) -> list[ChunkRecord]:
    """Positional records of unrotated keys, each behind the one before it, as a document has them."""
    records, key = [], positional_key(b"", identity.fingerprint, identity.recipe, [0])
    for seed in seeds:
        token_ids = [seed, seed + 1, 3]
        key = positional_key(key, identity.fingerprint, identity.recipe, token_ids)
        facts = {"positional": True, **_facts(identity)}
        records.append(build_record(key, _layers(seed, 500), token_ids=token_ids, **facts))
    return records


def make_entry(
    name: str, records: Sequence[ChunkRecord], chain: Sequence[ChunkRecord] = (), *, mtime_ns: int = 5
) -> DocumentEntry:
    return DocumentEntry(
        name=name, root="/notes", size_bytes=11, mtime_ns=mtime_ns, content_hash="c0ffee", kind="text",
        recipe=IDENTITY.recipe.hex(), num_tokens=sum(record.header.num_tokens for record in records),
        chunk_keys=tuple(record.key for record in records), indexed_at=1700000000.25,
        position_keys=tuple(record.key for record in chain),
    )  # fmt: skip


def _layers(seed: int, num_bytes: int) -> list[bytes]:
    return [((seed * 7 + layer).to_bytes(4, "big") * num_bytes)[:num_bytes] for layer in range(NUM_LAYERS)]


def _facts(identity: StoreIdentity) -> dict[str, object]:
    return {
        "fingerprint": identity.fingerprint, "recipe": identity.recipe, "dtype": "bfloat16", "bits": 8,
        "group": 64, "kv_heads": 3, "key_dim": 64, "value_dim": 32,
    }  # fmt: skip


def raw_environment(path: Path) -> lmdb.Environment:
    """LMDB itself on a store that is not open in this process."""
    return lmdb.open(str(path), map_size=1 << 30, max_dbs=8, create=False)


def raw_items(path: Path, database: str) -> dict[bytes, bytes]:
    with raw_environment(path) as environment:
        handle = environment.open_db(database.encode(), create=False)
        with environment.begin() as transaction:
            return dict(transaction.cursor(handle))


def overwrite(path: Path, database: str, key: bytes, value: bytes | None) -> None:
    """Puts `value` (None: nothing) under `key` behind the store's back."""
    with raw_environment(path) as environment:
        handle = environment.open_db(database.encode(), create=False)
        with environment.begin(write=True) as transaction:
            if value is None:
                assert transaction.delete(key, db=handle)
            else:
                transaction.put(key, value, db=handle)


def flip_byte(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :]


def audit(path: Path) -> set[str]:
    """Checks naively that records, counts and documents fit each other; returns the documents' names.

    Positional records may be there without a document, but are whole; of evicted ones only a header is there.
    """
    entries = [DocumentEntry.from_bytes(data) for data in raw_items(path, "documents").values()]
    meta = raw_items(path, "meta")
    uses = Counter(key for entry in entries for key in set(entry.chunk_keys))
    assert _counts(path, "refs") == uses
    evicted = {key for name in ("chunks", "positions") for key in evicted_keys(path, name)}
    assert _parts(path, "chunks") == {key: 1 if key in evicted else 1 + NUM_LAYERS for key in uses}
    chains = [ChainEntry.from_bytes(data) for name, data in meta.items() if name.startswith(CHAIN_PREFIX)]
    position_uses = Counter(key for named in (*entries, *chains) for key in set(named.position_keys))
    assert _counts(path, "position_refs") == position_uses
    positions = _parts(path, "positions")
    assert position_uses.keys() <= positions.keys()
    assert positions == {key: 1 if key in evicted else 1 + NUM_LAYERS for key in positions}
    return {entry.name for entry in entries}


def evicted_keys(path: Path, database: str) -> set[bytes]:
    """What was evicted there, by its headers; its counts tell of no bytes."""
    headers = {key: ChunkHeader.unpack(data) for key, data in raw_items(path, database).items() if len(key) == 32}
    evicted = {key for key, header in headers.items() if not header.num_layers}
    counts = raw_items(path, "refs" if database == "chunks" else "position_refs")
    assert evicted == {key for key, data in counts.items() if not int.from_bytes(data[8:16], "little")}
    return evicted


def _counts(path: Path, database: str) -> dict[bytes, int]:
    return {key: int.from_bytes(data[:4], "little") for key, data in raw_items(path, database).items()}


def _parts(path: Path, database: str) -> Counter[bytes]:
    """How many values, header and layers, each record has."""
    return Counter(key[:32] for key in raw_items(path, database))


def run_script(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process that runs `script` with this directory and the project on its path."""
    prelude = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\n"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", prelude + script, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
