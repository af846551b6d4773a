"""Export and import as the commands do them, and all that a store holds as plain values."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blake3 import blake3
from samples import Desk

from kvboost_cli.bundle import BundleReader
from kvboost_cli.documents import Skipped
from kvboost_cli.pipelines.exporting import Exported, Sealed, export_documents, find_names
from kvboost_cli.pipelines.importing import (
    Imported,
    ImportRequest,
    audit_bundle,
    import_documents,
    require_same_identity,
)
from kvboost_cli.pipelines.rules import record_rules
from kvboost_cli.pipelines.source import StoreSource
from store import ChunkStore, DocumentEntry

END_BYTES = 20 + 48
"""The last frame: its head and its payload."""


def export_bundle(
    desk: Desk, path: Path, documents: Sequence[str] = (), *, keep_paths: bool = False
) -> list[Exported | Skipped]:
    """A bundle of a desk's store."""
    with ChunkStore.open(desk.root / "store", readonly=True) as store, open(path, "wb") as file:
        names = find_names(store, documents) if documents else None
        *events, end = export_documents(StoreSource(store), names, file, keep_paths=keep_paths)
    assert end == Sealed(path.stat().st_size)
    return [event for event in events if not isinstance(event, Sealed)]


def import_bundle(desk: Desk, path: Path, **options: bool) -> list[Imported | Skipped]:
    """Check and take over a bundle."""
    with open(path, "rb") as file:
        reader = BundleReader(file, path.name)
        with desk.workspace() as workspace:
            require_same_identity(path.name, reader.identity, workspace.store.identity)
            list(audit_bundle(reader, record_rules(workspace)))
            return list(import_documents(workspace, reader, ImportRequest(**options)))


def import_store(desk: Desk, store_dir: Path, **options: bool) -> list[Imported | Skipped]:
    """Take over another store."""
    with ChunkStore.open(store_dir, readonly=True) as store, desk.workspace() as workspace:
        require_same_identity(str(store_dir), store.identity, workspace.store.identity)
        return list(import_documents(workspace, StoreSource(store), ImportRequest(**options)))


@dataclass(frozen=True)
class Contents:
    """Documents by name (without the time of indexing), records by key, fillers."""

    documents: dict[str, DocumentEntry]
    records: dict[bytes, tuple[bytes, ...]]
    fillers: bytes | None


def contents(store_dir: Path) -> Contents:
    """Everything that a store holds for its documents."""
    with ChunkStore.open(store_dir, readonly=True) as store, store.snapshot() as snapshot:
        entries = {entry.name: replace(entry, indexed_at=0.0) for entry in snapshot.documents()}
        headers = {key: snapshot.header(key) for entry in entries.values() for key in entry.chunk_keys}
        links = [key for entry in entries.values() for key in entry.position_keys]
        headers |= {key: snapshot.position_header(key) for key in [*links, *snapshot.preamble_keys()]}
        records = {
            key: (header.pack(), *(bytes(snapshot.layer(key, layer, header)) for layer in range(header.num_layers)))
            for key, header in headers.items()
            if header is not None
        }
        assert len(records) == len(headers)
        return Contents(entries, records, snapshot.meta("fillers"))


def changes(events: Sequence[Imported | Skipped]) -> dict[str, str]:
    """What became of each document."""
    return {event.name: event.change for event in events if isinstance(event, Imported)}


def reseal(data: bytes) -> bytes:
    """A bundle that was changed, with the digest of what it holds now."""
    body, end = data[:-END_BYTES], data[-END_BYTES:]
    return body + end[:-32] + blake3(body).digest()


@contextlib.contextmanager
def untouched(store_dir: Path) -> Iterator[None]:
    """Checks that the block leaves the store as it was."""
    before = contents(store_dir)
    yield
    assert contents(store_dir) == before


def other_desk(desk: Desk, name: str) -> Desk:
    """Another machine: the same model, no documents and no store."""
    root = desk.root / name
    root.mkdir()
    return Desk(root, desk.model_dir, desk.bits, desk.contexts, desk.exact)


def copy_documents(desk: Desk, other: Desk) -> None:
    """The same folder at another place, times included."""
    shutil.copytree(desk.docs, other.docs, dirs_exist_ok=True)
