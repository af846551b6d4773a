"""kvboost's chunk store: quantized keys and values of token runs, in LMDB, under keys made of their content.

Bytes in, bytes out: nothing here knows of tensors or models.
"""

from .budget import Budget, Evicted
from .budgeting import (
    budget_of,
    evicted_of,
    is_within_budget,
    pin_documents,
    pinned_documents,
    set_budget,
    unpin_documents,
)
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
from .eviction import Candidate, Rank, by_importance
from .faults import Fault, FaultKind, Rules, Step
from .footprint import file_bytes
from .forgetting import Forgotten, asked_names, forget_documents
from .header import header_bytes
from .history import clear_asks, count_ask, list_asks
from .holdings import DocumentHolding, read_holdings
from .importance import ChunkAttention
from .keys import content_key, positional_key
from .pruning import Extent, extent_of, num_counted, prune_orphans, remove_documents, shed_records
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
    "AskEntry", "Budget", "Candidate", "ChainEntry", "ChainedDocument", "ChunkAttention", "ChunkHeader",
    "ChunkRecord", "ChunkStore", "Compacted", "DamagedRecord", "DocumentEntry", "DocumentHolding", "Evicted",
    "Extent", "Fault", "FaultKind", "ForeignRecord", "Forgotten", "ForkedStore", "MissingChunk", "MissingDocument",
    "ModelMismatch", "NetworkFileSystem", "NotAStore", "Rank", "RecipeMismatch", "Rules", "Snapshot",
    "SnapshotInUse", "Step", "StoreBusy", "StoreClosed", "StoreDamaged", "StoreError", "StoreExists", "StoreFailed",
    "StoreFull", "StoreIdentity", "StoreNotFound", "StoreReadonly", "StoreStats", "StoreUnreadable",
    "UnknownFormat", "asked_names", "budget_of", "build_record", "by_importance", "check_store", "clear_asks",
    "compact_store", "content_key", "count_ask", "drop_chains", "evicted_of", "extent_of", "file_bytes",
    "forget_documents", "header_bytes", "is_within_budget", "list_asks", "num_counted", "pin_documents",
    "pinned_documents", "positional_key", "prune_orphans", "put_chain", "read_holdings", "remove_documents",
    "repair_store", "set_budget", "shed_records", "unpin_documents",
]  # fmt: skip
