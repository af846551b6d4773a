"""Bundles that were made to deceive: refused as a whole, and nothing stored."""

import io
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from carrying import contents, other_desk, reseal
from forging import edit_entry, edit_record, edited, examine, with_tokens
from samples import Desk

from kvboost_cli.bundle import BundleDamaged, BundleReader
from kvboost_cli.bundle.frames import MAX_RATIO, FrameKind, FrameReader, FrameWriter
from kvboost_cli.pipelines.importing import ImportRequest, audit_bundle, import_documents
from kvboost_cli.pipelines.rules import record_rules
from kvboost_cli.pipelines.workspace import Workspace
from store import ChunkRecord


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "x\x1b[31m"}, {"name": ""}, {"name": 7}, {"name": "a" * 5000}, {"name": "\u202egpj.exe"},
        {"root": "line\nbreak"}, {"kind": "../x"}, {"content_hash": "no hash"}, {"recipe": "00" * 32},
        {"num_tokens": 1}, {"num_tokens": -1}, {"num_tokens": True}, {"num_tokens": 1e9}, {"size_bytes": 1 << 70},
        {"indexed_at": "now"}, {"indexed_at": float("nan")}, {"indexed_at": 1e30}, {"mtime_ns": None},
        {"chunk_keys": ["00" * 32]}, {"chunk_keys": ["zz"]}, {"chunk_keys": 5}, {"chunk_keys": []},
        {"position_keys": ["11" * 32]}, {"position_keys": {}}, {"position_keys": []}, {"one": "more"},
    ],
    ids=str,
)  # fmt: skip
def test_a_false_entry_is_refused(bundle: bytes, guarded: Workspace, changes: dict[str, object]) -> None:
    with pytest.raises(BundleDamaged):
        examine(edited(bundle, FrameKind.DOCUMENT, lambda payload: edit_entry(payload, **changes)), guarded)


RECORD_EDITS: dict[str, Callable[[ChunkRecord], ChunkRecord]] = {
    "another key": lambda record: replace(record, key=bytes(32)),
    "another token under the old key": lambda record: replace(with_tokens(record, 5), key=record.key),
    "another token and its key": lambda record: with_tokens(record, 5),
    "a token that the model does not know": lambda record: with_tokens(record, 1 << 31),
    "another model": lambda record: replace(record, header=replace(record.header, fingerprint=bytes(32))),
    "another recipe": lambda record: replace(record, header=replace(record.header, recipe=bytes(32))),
    "other heads": lambda record: replace(record, header=replace(record.header, kv_heads=1 << 20)),
    "other bits": lambda record: replace(record, header=replace(record.header, bits=4)),
    "another dtype": lambda record: replace(record, header=replace(record.header, dtype="float64")),
    "kept indices": lambda record: replace(record, header=replace(record.header, kept_indices=b"abcd")),
    "the other kind": lambda record: replace(
        record, header=replace(record.header, positional=not record.header.positional, rotated=False)
    ),
    "another layer": lambda record: replace(record, layers=[bytes(len(layer)) for layer in record.layers]),
}


@pytest.mark.parametrize("name", RECORD_EDITS)
@pytest.mark.parametrize("kind", [FrameKind.RECORD, FrameKind.SHARED, FrameKind.PREAMBLE], ids=lambda kind: kind.name)
def test_a_false_record_is_refused(bundle: bytes, guarded: Workspace, name: str, kind: FrameKind) -> None:
    data = edited(bundle, kind, lambda payload: edit_record(payload, RECORD_EDITS[name]))
    if (name, kind) == ("another recipe", FrameKind.PREAMBLE):
        return examine(data, guarded)  # exact KV depends on no recipe
    with pytest.raises(BundleDamaged):
        examine(data, guarded)
    return None


@pytest.mark.parametrize("sizes", [(1 << 40, 1 << 40), (1 << 40, 100), (MAX_RATIO * 100 + 1, 100), (5, 1 << 62)])
@pytest.mark.parametrize("method", [0, 1])
def test_sizes_that_a_file_claims_are_not_believed(bundle: bytes, sizes: tuple[int, int], method: int) -> None:
    """No memory is asked for before the sizes fit the file."""
    head = struct.pack("<BBHQQ", FrameKind.MANIFEST, method, 0, *sizes)
    with pytest.raises(BundleDamaged):
        BundleReader(io.BytesIO(reseal(bundle[:16] + head + bundle[36:])), "bomb.kvb")


def test_what_would_shrink_suspiciously_is_kept_raw() -> None:
    file = io.BytesIO()
    writer = FrameWriter(file)
    writer.write(FrameKind.MANIFEST, bytes(1 << 15))
    writer.finish(0, 0)
    assert len(file.getvalue()) > 1 << 15
    reader = FrameReader(file, "zeros")
    assert [reader.payload(frame) for frame in reader.frames()] == [bytes(1 << 15)]


@pytest.mark.parametrize("name", ["../../etc/passwd", "/../x", "a//b", "."])
def test_a_name_that_leads_elsewhere_is_left_out(bundle: bytes, desk: Desk, name: str) -> None:
    """An absolute one becomes a name below its folder's; any other has to be plain."""
    data = edited(bundle, FrameKind.DOCUMENT, lambda payload: edit_entry(payload, name=name, root=""))
    with desk.workspace() as workspace:
        examine(data, workspace)
        reader = BundleReader(io.BytesIO(data), "names.kvb")
        list(audit_bundle(reader, record_rules(workspace)))
        events = list(import_documents(workspace, reader, ImportRequest()))
        with workspace.store.snapshot() as snapshot:
            stored = list(snapshot.document_names())
    assert len(events) == 3
    assert all(not one.startswith(("/", "..")) for one in stored)


def test_a_store_is_as_good_after_an_import_of_a_changed_but_valid_bundle(bundle: bytes, desk: Desk) -> None:
    other = other_desk(desk, "other")
    data = edited(bundle, FrameKind.DOCUMENT, lambda payload: edit_entry(payload, indexed_at=1.0, mtime_ns=-5))
    with other.workspace() as workspace:
        reader = BundleReader(io.BytesIO(data), "valid.kvb")
        list(audit_bundle(reader, record_rules(workspace)))
        list(import_documents(workspace, reader, ImportRequest()))
    assert len(contents(other.root / "store").documents) == 3
