"""kvboost's chunk store: quantized keys and values of token runs, in LMDB, under keys made of their content.

Bytes in, bytes out: nothing here knows of tensors or models.
"""

from .chaining import drop_chains, put_chain
from .chains import ChainedDocument, ChainEntry
from .chunks import ChunkStore
from .compacting import Compacted, compact_store
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
from .faults import Fault, FaultKind, Rules, Step
from .footprint import file_bytes
from .forgetting import Forgotten, asked_names, forget_documents
from .header import header_bytes
from .history import clear_asks, count_ask, list_asks
from .importance import ChunkAttention
from .keys import content_key, positional_key
from .pruning import Extent, extent_of, prune_orphans, remove_documents, shed_records
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
from .upkeep import check_store, repair_store

__all__ = [
    "AskEntry", "ChainEntry", "ChainedDocument", "ChunkAttention", "ChunkHeader", "ChunkRecord", "ChunkStore",
    "Compacted", "DamagedRecord", "DocumentEntry", "Extent", "Fault", "FaultKind", "ForeignRecord", "Forgotten",
    "ForkedStore", "MissingChunk", "MissingDocument", "ModelMismatch", "NetworkFileSystem", "NotAStore",
    "RecipeMismatch", "Rules", "Snapshot", "SnapshotInUse", "Step", "StoreBusy", "StoreClosed", "StoreDamaged",
    "StoreError", "StoreExists", "StoreFailed", "StoreFull", "StoreIdentity", "StoreNotFound", "StoreReadonly",
    "StoreStats", "StoreUnreadable", "UnknownFormat", "asked_names", "build_record", "check_store", "clear_asks",
    "compact_store", "content_key", "count_ask", "drop_chains", "extent_of", "file_bytes", "forget_documents",
    "header_bytes", "list_asks", "positional_key", "prune_orphans", "put_chain", "remove_documents", "repair_store",
    "shed_records",
]  # fmt: skip
