"""Bundles that were changed by accident or on purpose: one clear error, nothing stored, no harm.

`NUM_MUTATIONS` of each kind, from a fixed seed; raise it for a longer trial.
"""

import io
import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from carrying import contents, export_bundle, other_desk, reseal
from samples import Desk, make_text
from tiny_models import TinyModels
from xxhash import xxh3_64_intdigest

from kvboost_cli.bundle import BundleDamaged, BundleError, BundleReader
from kvboost_cli.bundle.frames import MAX_RATIO, FrameKind, FrameReader, FrameWriter
from kvboost_cli.bundle.payloads import pack_record, unpack_record
from kvboost_cli.pipelines.importing import ImportRequest, audit_bundle, import_documents
from kvboost_cli.pipelines.rules import record_rules
from kvboost_cli.pipelines.workspace import Workspace
from store import ChunkRecord, content_key

NUM_MUTATIONS = int(os.environ.get("KVBOOST_FUZZ_MUTATIONS", "250"))

Frames = list[tuple[FrameKind, bytes]]


@pytest.fixture(scope="module")
def bundle(tiny_models: TinyModels, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two documents that share chunks, and one of its own."""
    desk = Desk(tmp_path_factory.mktemp("fuzz"), tiny_models.path("llama"))
    for name, seed in (("a.md", 1), ("b.md", 2), ("copy.md", 1)):
        desk.write(name, make_text(seed, 2))
    desk.index()
    export_bundle(desk, desk.root / "all.kvb")
    return (desk.root / "all.kvb").read_bytes()


@pytest.fixture
def workspace(desk: Desk) -> Iterator[Workspace]:
    """A store with a document of its own, which has to stay as it is."""
    desk.write("own.md", make_text(8))
    desk.index()
    before = contents(desk.root / "store")
    with desk.workspace() as workspace:
        yield workspace
    assert contents(desk.root / "store") == before


def examine(data: bytes, workspace: Workspace) -> None:
    """What comes before an import; raises BundleError and nothing else."""
    reader = BundleReader(io.BytesIO(data), "fuzz.kvb")
    list(audit_bundle(reader, record_rules(workspace)))


def mutated(data: bytes, source: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or put in."""
    start = source.randrange(len(data))
    end = min(len(data), start + source.choice([1, 1, 1, 2, 8, 64, 1000]))
    new = source.choice([source.randbytes(end - start), b"", data[start:end] * 2, b"\0" * (end - start), b"\xff" * 8])
    return data[:start] + new + data[end:]


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


def test_the_bundle_itself_is_sound(bundle: bytes, workspace: Workspace) -> None:
    examine(bundle, workspace)
    assert join(*split(bundle)) == bundle
    assert {kind for kind, _ in split(bundle)[0]} == set(FrameKind) - {FrameKind.END}


def test_any_accident_is_found_when_the_bundle_is_opened(bundle: bytes) -> None:
    source = random.Random(1)
    for _ in range(NUM_MUTATIONS):
        data = mutated(bundle, source)
        if data != bundle:
            with pytest.raises(BundleError):
                BundleReader(io.BytesIO(data), "fuzz.kvb")


def test_bytes_that_were_changed_below_a_right_digest_raise_one_kind_of_error(
    bundle: bytes, workspace: Workspace
) -> None:
    source, num_refused = random.Random(2), 0
    for _ in range(NUM_MUTATIONS):
        try:
            examine(reseal(mutated(bundle, source)), workspace)
        except BundleError:
            num_refused += 1
    assert num_refused > 0.95 * NUM_MUTATIONS


def test_payloads_that_were_changed_within_right_frames_raise_one_kind_of_error(
    bundle: bytes, workspace: Workspace
) -> None:
    source, num_refused = random.Random(3), 0
    frames, *totals = split(bundle)
    for _ in range(NUM_MUTATIONS):
        number = source.randrange(len(frames))
        changed = list(frames)
        changed[number] = (changed[number][0], mutated(changed[number][1], source))
        try:
            examine(join(changed, *totals), workspace)
        except BundleError:
            num_refused += 1
    assert num_refused > 0.9 * NUM_MUTATIONS


def test_frames_in_another_order_raise_one_kind_of_error(bundle: bytes, workspace: Workspace) -> None:
    source = random.Random(4)
    frames, *totals = split(bundle)
    for _ in range(NUM_MUTATIONS):
        first, second = source.sample(range(len(frames)), 2)
        changed = list(frames)
        changed[first], changed[second] = changed[second], changed[first]
        try:
            examine(join(changed, *totals), workspace)
        except BundleError:
            continue
        swapped = {frames[first][0], frames[second][0]}
        assert swapped <= {FrameKind.RECORD, FrameKind.SHARED}, "records of one document"


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
def test_a_false_entry_is_refused(bundle: bytes, workspace: Workspace, changes: dict[str, object]) -> None:
    with pytest.raises(BundleDamaged):
        examine(edited(bundle, FrameKind.DOCUMENT, lambda payload: edit_entry(payload, **changes)), workspace)


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
def test_a_false_record_is_refused(bundle: bytes, workspace: Workspace, name: str, kind: FrameKind) -> None:
    data = edited(bundle, kind, lambda payload: edit_record(payload, RECORD_EDITS[name]))
    if (name, kind) == ("another recipe", FrameKind.PREAMBLE):
        return examine(data, workspace)  # exact KV depends on no recipe
    with pytest.raises(BundleDamaged):
        examine(data, workspace)
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
