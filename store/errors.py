"""Errors of the store.

StoreError
|-- StoreNotFound, NotAStore, StoreExists, UnknownFormat      what is at the path
|-- ModelMismatch, RecipeMismatch, ForeignRecord              whose keys and values these are
|-- StoreDamaged, DamagedRecord                               what cannot be trusted
|-- MissingChunk, MissingDocument                             what a write refers to
|-- StoreFull, StoreBusy, StoreReadonly, StoreUnreadable      what the system does not grant
|-- NetworkFileSystem, ForkedStore, StoreClosed, SnapshotInUse    how a store may not be used
`-- StoreFailed                                               anything else

Each message is one sentence with the bad value last.
"""

from collections.abc import Sequence


class StoreError(Exception):
    """Any failure of the store."""


class StoreNotFound(StoreError):
    """There is nothing at the path, or a creation that was cut short."""

    def __init__(self, path: object) -> None:
        super().__init__(f"there is no store at {path}")


class NotAStore(StoreError):
    """There is a file or a directory of something else at the path."""

    def __init__(self, path: object) -> None:
        super().__init__(f"this is not a kvboost store: {path}")


class StoreExists(StoreError):
    """There is a store where a new one was to be made."""

    def __init__(self, path: object) -> None:
        super().__init__(f"there is a store already at {path}")


class UnknownFormat(StoreError):
    """A newer or an older kvboost wrote this."""

    def __init__(self, what: str, version: object) -> None:
        super().__init__(f"the {what} has an unknown format version: {version}")


class ModelMismatch(StoreError):
    """`stored` and `wanted` each name a model, with the start of its fingerprint."""

    def __init__(self, path: object, stored: str, wanted: str) -> None:
        super().__init__(f"the store {path} was built with the model {stored}, not with {wanted}")
        self.stored = stored
        self.wanted = wanted


class RecipeMismatch(StoreError):
    """`differences` holds (setting, value in the store, value wanted)."""

    def __init__(self, path: object, differences: Sequence[tuple[str, object, object]]) -> None:
        told = ", ".join(f"{name} is {old} there and {new} here" for name, old, new in differences)
        super().__init__(f"the store {path} was built with other settings: {told}")
        self.differences = tuple(differences)


class ForeignRecord(StoreError):
    """A record of another model or recipe was handed in."""

    def __init__(self, key: bytes) -> None:
        super().__init__(f"a record belongs to another model or recipe than the store: {key.hex()}")
        self.key = key


class StoreDamaged(StoreError):
    """The files of the store cannot be trusted."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"the store {path} is damaged: {reason}")


class DamagedRecord(StoreError):
    """One record cannot be trusted; for readers it is a miss."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a stored record is damaged: {reason}")
        self.reason = reason


class MissingChunk(StoreError):
    """A document names a chunk that is nowhere."""

    def __init__(self, document: str, key: bytes) -> None:
        super().__init__(f"the document {document!r} names a chunk that is not stored: {key.hex()}")
        self.key = key


class MissingDocument(StoreError):
    """The document to be touched is not the stored one."""

    def __init__(self, document: str) -> None:
        super().__init__(f"no document with these chunks is stored under the name {document!r}")


class StoreFull(StoreError):
    """The disk or the map is full; nothing of the write happened."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"the store {path} is full: {reason}")


class StoreBusy(StoreError):
    """Another process is writing, or every reader slot is taken."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"the store {path} is busy: {reason}")


class StoreReadonly(StoreError):
    """Writing is not possible, by the way it was opened or by permission."""

    def __init__(self, path: object) -> None:
        super().__init__(f"the store cannot be written here: {path}")


class StoreUnreadable(StoreError):
    """The operating system denies access."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"the store {path} cannot be opened: {reason}")


class NetworkFileSystem(StoreError):
    """LMDB's locks and memory map do not work there."""

    def __init__(self, path: object, file_system: str) -> None:
        super().__init__(f"the store {path} is on a file system without safe locks and maps: {file_system}")


class ForkedStore(StoreError):
    """The store was opened by the process that this one was forked from."""

    def __init__(self, path: object) -> None:
        super().__init__(f"a store opened before a fork is not usable after it: {path}")


class StoreClosed(StoreError):
    """Used after close; or a snapshot used after its end."""

    def __init__(self, what: object) -> None:
        super().__init__(f"this is closed: {what}")


class SnapshotInUse(StoreError):
    """A snapshot, or a view of one, outlives its owner."""

    def __init__(self, what: str, count: int) -> None:
        super().__init__(f"{what}: {count}")


class StoreFailed(StoreError):
    """LMDB or the system refused for another reason."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"the store {path} failed: {reason}")
