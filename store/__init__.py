"""kvboost's chunk store: quantized keys and values of token runs, in LMDB, under keys made of their content.

Bytes in, bytes out: nothing here knows of tensors or models.
"""

from .chunks import ChunkStore
from .errors import (
    DamagedRecord,
    ForeignRecord,
    ForkedStore,
    MissingChunk,
    MissingDocument,
    ModelMismatch,
    NetworkFileSystem,
    NotAStore,
    RecipeMismatch,
    SnapshotInUse,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreExists,
    StoreFailed,
    StoreFull,
    StoreNotFound,
    StoreReadonly,
    StoreUnreadable,
    UnknownFormat,
)
from .importance import ChunkAttention
from .keys import content_key, positional_key
from .records import (
    AskEntry,
    ChunkHeader,
    ChunkRecord,
    DocumentEntry,
    StoreIdentity,
    StoreStats,
    build_record,
)
from .snapshot import Snapshot

__all__ = [
    "AskEntry", "ChunkAttention", "ChunkHeader", "ChunkRecord", "ChunkStore", "DamagedRecord", "DocumentEntry",
    "ForeignRecord", "ForkedStore", "MissingChunk", "MissingDocument", "ModelMismatch", "NetworkFileSystem",
    "NotAStore", "RecipeMismatch", "Snapshot", "SnapshotInUse", "StoreBusy", "StoreClosed", "StoreDamaged",
    "StoreError", "StoreExists", "StoreFailed", "StoreFull", "StoreIdentity", "StoreNotFound", "StoreReadonly",
    "StoreStats", "StoreUnreadable", "UnknownFormat", "build_record", "content_key", "positional_key",
]  # fmt: skip
