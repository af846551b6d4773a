"""The export flow: documents of a store -> one file, front to back, one record in memory at a time."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import BinaryIO

from store import ChunkRecord, ChunkStore, DocumentEntry, StoreIdentity

from ..bundle import BundleWriter
from ..bundle.payloads import has_unsafe_characters
from ..documents import Skipped
from .asked import resolve_name
from .errors import DocumentNotFound
from .portable import is_plain, portable
from .source import StoredDocument, StoreSource
from .workspace import MODEL_FACT


@dataclass(frozen=True)
class Exported:
    """One document is in the bundle."""

    name: str
    is_exact: bool
    num_records: int


@dataclass(frozen=True)
class Sealed:
    """The bundle is whole, and has so many bytes."""

    num_bytes: int


def find_names(store: ChunkStore, asked: Sequence[str]) -> list[str]:
    """The stored names of documents as a user names them, once each, in the store's order."""
    names = {resolve_name(store, name) for name in asked}
    with store.snapshot() as snapshot:
        for name in names:
            if snapshot.document(name) is None:
                raise DocumentNotFound(f"there is no such document in the store: {name}")
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogatepass"))


def export_documents(
    source: StoreSource, names: Sequence[str] | None, file: BinaryIO, *, keep_paths: bool
) -> Iterator[Exported | Skipped | Sealed]:
    """Write the named documents, or all (None), as a bundle; an event for each, and one at the end.

    The same documents give the same bytes. Without ``keep_paths`` their names tell no more than the indexed folder's
    name and the path below it.
    """
    writer = BundleWriter(file, _without_model_path(source.identity), source.fillers)
    written: set[bytes] = set()
    taken: set[str] = set()
    with closing(source.documents(names)) as documents:
        for found in documents:
            if isinstance(found, Skipped):
                yield found
                continue
            entry = found.entry if keep_paths else portable(found.entry)
            refusal = _refusal(entry, taken)
            if refusal is not None:
                yield Skipped(found.entry.name, refusal, failed=True)
                continue
            taken.add(entry.name)
            yield _write(writer, found, entry, written)
    writer.finish()
    yield Sealed(writer.num_bytes)


def _write(writer: BundleWriter, found: StoredDocument, entry: DocumentEntry, written: set[bytes]) -> Exported:
    before = writer.num_records
    for preamble in found.preambles():
        writer.add_preamble(preamble)
    writer.add_document(entry, _new_records(found, written))
    return Exported(found.entry.name, bool(entry.position_keys), writer.num_records - before)


def _new_records(found: StoredDocument, written: set[bytes]) -> Iterator[tuple[ChunkRecord, bool]]:
    """The document's records that are not in the bundle yet, and whether other documents name them, too.

    Only those are remembered in ``written``: no list of all keys is held.
    """
    keys = {*found.entry.chunk_keys, *found.entry.position_keys} - written
    for record in found.records(keys):
        is_shared = found.snapshot.is_shared(record.key)
        if is_shared:
            written.add(record.key)
        yield record, is_shared


def _refusal(entry: DocumentEntry, taken: set[str]) -> str | None:
    """Why a document cannot be in the bundle under its name, or None."""
    if entry.name in taken:
        return f"another document has the same name in the bundle, {entry.name}; --keep-paths keeps both"
    if has_unsafe_characters(f"{entry.name}{entry.root}"):
        return "its name has control characters"
    return None if entry.name.startswith("/") or is_plain(entry.name) else "its name is not a plain one"


def _without_model_path(identity: StoreIdentity) -> StoreIdentity:
    """The model's place on this machine is nobody's business; its fingerprint tells which one it is."""
    facts = {name: value for name, value in identity.recipe_text.items() if name != MODEL_FACT}
    return replace(identity, recipe_text=facts)
