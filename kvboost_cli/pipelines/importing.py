"""The import flow: documents of a bundle or of another store -> this store, nothing encoded.

A bundle is gone through twice: ``audit_bundle`` checks all of it before ``import_documents`` writes any of it. Each
document is one transaction; one document's new records are in memory at a time, as when it is indexed.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from store import ChunkStore, DocumentEntry, MissingChunk, Snapshot, StoreIdentity

from ..bundle import BundledDocument, BundleReader
from ..bundle.audit import BundleAudit
from ..documents import Skipped
from .errors import ForeignKV, SameStore
from .fillers import META_NAME
from .portable import is_plain, portable
from .rules import RecordRules, record_rules
from .source import StoredDocument, StoreSource
from .workspace import Workspace


@dataclass(frozen=True)
class ImportRequest:
    """How documents are taken over: ``replace`` those of the same name whatever their age; ``dry_run`` changes nothing.

    Without ``keep_paths`` a document is named by its folder and its path below that, and has no file here.
    """

    replace: bool = False
    keep_paths: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Imported:
    """One document was looked at. ``change`` is added, updated, unchanged, or kept: the store's own is newer."""

    name: str
    change: str
    num_new_records: int = 0
    num_reused_records: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class Audited:
    """So many documents of a bundle are sound."""

    num_documents: int


def require_same_identity(name: str, theirs: StoreIdentity, ours: StoreIdentity) -> None:
    """Raise ``ForeignKV`` unless the KV of a bundle or store ``name`` was made by this store's model and recipe."""
    if theirs.fingerprint != ours.fingerprint:
        raise ForeignKV(f"{name} holds KV of the model {theirs}, and the store that of: {ours}")
    if theirs.recipe != ours.recipe:
        differences = ", ".join(
            f"{what} is {one} there and {two} here" for what, one, two in _differences(theirs, ours)
        )
        raise ForeignKV(f"{name} was made with other settings than the store's: {differences}")


def _differences(theirs: StoreIdentity, ours: StoreIdentity) -> list[tuple[str, object, object]]:
    """Without the model's place, which a bundle does not tell."""
    facts = {name: value for name, value in ours.recipe_text.items() if name in theirs.recipe_text}
    return list(theirs.recipe_differences(replace(ours, recipe_text=facts)))


def require_other_store(store_dir: Path, source: ChunkStore) -> None:
    """Raise ``SameStore`` if a store would be imported into itself."""
    if os.path.realpath(store_dir) == str(source.path):
        raise SameStore(f"a store cannot be imported into itself: {source.path}")


def audit_bundle(reader: BundleReader, rules: RecordRules) -> Iterator[Audited]:
    """Go through a whole bundle; raises ``BundleDamaged`` if anything is not as it has to be."""
    audit = BundleAudit(reader)
    fault = None if reader.fillers is None else rules.pool_fault(reader.fillers)
    for number, document in enumerate(reader.documents()):
        for record in audit.check(document):
            fault = fault or rules.fault(record.header)
        if fault is not None:
            raise reader.frames.damaged(fault)
        yield Audited(number + 1)
    audit.finish()
    if fault is not None:
        raise reader.frames.damaged(fault)


def import_documents(
    workspace: Workspace, source: BundleReader | StoreSource, request: ImportRequest
) -> Iterator[Imported | Skipped]:
    """Take over all documents; the caller holds the store's writer lock unless it is a dry run.

    A bundle has been audited before. The search index is completed at the end, from the token ids.
    """
    rules = record_rules(workspace)
    if not request.dry_run:
        _take_fillers(workspace, source, rules)
    with closing(source.documents()) as documents:
        for found in documents:
            if isinstance(found, Skipped):
                yield found
                continue
            if not request.dry_run:
                _take_preambles(workspace.store, found, rules)
            yield _take(workspace, found, rules, request)
    if not request.dry_run:
        _ = workspace.search


def _take_fillers(workspace: Workspace, source: BundleReader | StoreSource, rules: RecordRules) -> None:
    """A store without fillers gets the source's, so that what is indexed later has the same contexts."""
    with workspace.store.snapshot() as snapshot:
        has_fillers = snapshot.meta(META_NAME) is not None
    if not has_fillers and source.fillers is not None and rules.pool_fault(source.fillers) is None:
        workspace.store.put_meta(META_NAME, source.fillers)


def _take_preambles(store: ChunkStore, found: BundledDocument | StoredDocument, rules: RecordRules) -> None:
    """They are given with the first document behind them, but serve the others, too."""
    for preamble in found.preambles():
        if rules.fault(preamble.header) is None:
            store.put_position(preamble)


def _take(
    workspace: Workspace, found: BundledDocument | StoredDocument, rules: RecordRules, request: ImportRequest
) -> Imported | Skipped:
    keeps_name = request.keep_paths or isinstance(found, StoredDocument)
    entry = found.entry if keeps_name else portable(found.entry)
    if not os.path.isabs(entry.name) and not is_plain(entry.name):
        return Skipped(entry.name, "its name is not a plain one", failed=True)
    with workspace.store.snapshot() as snapshot:
        missing = _missing(snapshot, entry)
        change = _choose(snapshot, entry, missing, replace_all=request.replace)
    num_records = len({*entry.chunk_keys, *entry.position_keys})
    if change in ("unchanged", "kept"):
        return Imported(entry.name, change, num_reused_records=num_records)
    told = Imported(entry.name, change, len(missing), num_records - len(missing))
    return told if request.dry_run else _store(workspace.store, found, entry, missing, rules, told)


def _missing(snapshot: Snapshot, entry: DocumentEntry) -> frozenset[bytes]:
    return frozenset([*snapshot.missing(entry.chunk_keys), *snapshot.missing_positions(entry.position_keys)])


def _choose(snapshot: Snapshot, entry: DocumentEntry, missing: frozenset[bytes], *, replace_all: bool) -> str:
    """What becomes of a document: that of the same name gives way to one that was indexed later."""
    previous = snapshot.document(entry.name)
    if previous is None:
        return "added"
    content = (entry.content_hash, entry.recipe, entry.chunk_keys)
    if (previous.content_hash, previous.recipe, previous.chunk_keys) == content:
        if entry.position_keys in ((), previous.position_keys):
            return "updated" if missing else "unchanged"
        if not previous.position_keys:
            return "updated"
    return "updated" if replace_all or entry.indexed_at > previous.indexed_at else "kept"


def _store(
    store: ChunkStore, found: BundledDocument | StoredDocument, entry: DocumentEntry, missing: frozenset[bytes],
    rules: RecordRules, told: Imported,
) -> Imported | Skipped:  # fmt: skip
    while True:
        records = list(found.records(missing))
        fault = next((fault for record in records if (fault := rules.fault(record.header))), None)
        if fault is not None:
            return Skipped(entry.name, fault, failed=True)
        try:
            num_bytes = store.put_document(entry, records)
            return replace(told, num_new_records=len(missing), bytes_written=num_bytes)
        except MissingChunk as error:  # dropped with the last other document that had it, since we looked
            if error.key in missing:
                raise
            missing |= {error.key}
