"""Bundles taken apart and put together again with something else in them."""

import io
import json
import struct
from collections.abc import Callable
from dataclasses import replace

from xxhash import xxh3_64_intdigest

from kvboost_cli.bundle import BundleReader
from kvboost_cli.bundle.frames import FrameKind, FrameReader, FrameWriter
from kvboost_cli.bundle.payloads import pack_record, unpack_record
from kvboost_cli.pipelines.importing import audit_bundle
from kvboost_cli.pipelines.rules import record_rules
from kvboost_cli.pipelines.workspace import Workspace
from store import ChunkRecord, content_key

Frames = list[tuple[FrameKind, bytes]]


def examine(data: bytes, workspace: Workspace) -> None:
    """What comes before an import; raises BundleError and nothing else."""
    reader = BundleReader(io.BytesIO(data), "fuzz.kvb")
    list(audit_bundle(reader, record_rules(workspace)))


def split(data: bytes) -> tuple[Frames, int, int]:
    """The frames before the end, and the totals that it tells."""
    reader = FrameReader(io.BytesIO(data), "fuzz.kvb")
    frames = [(frame.kind, reader.payload(frame)) for frame in reader.frames()]
    return frames, reader.totals.num_documents, reader.totals.num_records


def join(frames: Frames, num_documents: int, num_records: int) -> bytes:
    file = io.BytesIO()
    writer = FrameWriter(file)
    for kind, payload in frames:
        writer.write(kind, payload)
    writer.finish(num_documents, num_records)
    return file.getvalue()


def edit_entry(payload: bytes, **changes: object) -> bytes:
    """A sealed entry with other facts."""
    text = json.dumps({**json.loads(payload[8:]), **changes}, sort_keys=True, separators=(",", ":")).encode("ascii")
    return struct.pack("<Q", xxh3_64_intdigest(text)) + text


def edit_record(payload: bytes, change: Callable[[ChunkRecord], ChunkRecord]) -> bytes:
    return pack_record(change(unpack_record(payload)))


def edited(bundle: bytes, kind: FrameKind, edit: Callable[[bytes], bytes]) -> bytes:
    """The bundle with its first frame of a kind edited."""
    frames, *totals = split(bundle)
    number = next(number for number, frame in enumerate(frames) if frame[0] is kind)
    frames[number] = (kind, edit(frames[number][1]))
    return join(frames, *totals)


def with_tokens(record: ChunkRecord, token: int) -> ChunkRecord:
    """Another first token, and the key that fits."""
    ids = (token, *record.header.token_ids[1:])
    header = replace(record.header, token_ids=ids)
    return replace(record, key=content_key(header.fingerprint, header.recipe, ids), header=header)
