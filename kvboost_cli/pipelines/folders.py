"""The folders that were indexed, kept in the store so that ``prewarm`` can look through them again.

A forgotten document whose file is still in such a folder must not come back by itself. Its name is not to be found in
the store either, so a hash of it is kept.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from blake3 import blake3

from store import ChunkStore, Snapshot

from ..documents import fixed_part
from .hidden import name_digest

META_NAME = "folders"
DIGEST_BYTES = 32


@dataclass(frozen=True)
class IndexedFolder:
    """The absolute path of a folder, or a pattern that begins with one, and what ``index`` last took of it."""

    path: str
    globs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    shard: str | None = None


@dataclass(frozen=True)
class Folders:
    """What to look through, in the order in which it was first indexed; ``forgotten`` holds hashes of names."""

    indexed: tuple[IndexedFolder, ...] = ()
    forgotten: frozenset[str] = frozenset()

    def with_run(self, run: Iterable[IndexedFolder]) -> "Folders":
        """With what a run has taken, each in place of an earlier run of the same path."""
        folders = {folder.path: folder for folder in (*self.indexed, *run)}
        return replace(self, indexed=tuple(folders.values()))

    def without(self, path: str) -> "Folders":
        """Without the folder or pattern of that path."""
        return replace(self, indexed=tuple(folder for folder in self.indexed if folder.path != os.path.abspath(path)))

    def with_forgotten(self, names: Iterable[str]) -> "Folders":
        """With those names that a look through the folders could find."""
        hidden = {name_digest(name) for name in names if self.covers(name)}
        return replace(self, forgotten=self.forgotten | hidden)

    def covers(self, name: str) -> bool:
        """Whether a document's file is below one of the folders."""
        places = (fixed_part(folder.path).rstrip(os.sep) + os.sep for folder in self.indexed)
        return os.path.isabs(name) and name.startswith(tuple(places))


def read_folders(snapshot: Snapshot) -> Folders:
    """What the store knows; nothing if that is damaged, which ``doctor --check`` tells."""
    data = snapshot.meta(META_NAME)
    return (None if data is None else folders_from_bytes(data)) or Folders()


def remember_run(store: ChunkStore, run: Iterable[IndexedFolder]) -> None:
    """Keep what a run of ``index`` takes; the caller holds the writer lock."""
    with store.snapshot() as snapshot:
        known = read_folders(snapshot)
    _keep(store, known, known.with_run(run))


def ignore_folder(store: ChunkStore, path: str) -> bool:
    """Leave a folder or pattern alone from now on; False if it was not looked through. Its documents stay."""
    with store.snapshot() as snapshot:
        known = read_folders(snapshot)
    kept = known.without(path)
    _keep(store, known, kept)
    return kept != known


def _keep(store: ChunkStore, known: Folders, wanted: Folders) -> None:
    if wanted != known:
        store.put_meta(META_NAME, folders_to_bytes(wanted))


def folders_to_bytes(folders: Folders) -> bytes:
    """For the store: a 32-byte digest, then JSON."""
    facts = {"indexed": [asdict(folder) for folder in folders.indexed], "forgotten": sorted(folders.forgotten)}
    content = json.dumps(facts).encode()
    return bytes(blake3(content).digest()) + content


def folders_from_bytes(data: bytes) -> Folders | None:
    """The inverse of ``folders_to_bytes``; None if the bytes are damaged."""
    digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if blake3(content).digest() != digest:
        return None
    facts = json.loads(content)
    indexed = (
        IndexedFolder(folder["path"], tuple(folder["globs"]), tuple(folder["excludes"]), folder["shard"])
        for folder in facts["indexed"]
    )
    return Folders(tuple(indexed), frozenset(facts["forgotten"]))
