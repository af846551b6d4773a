"""A trace replayed on a real store with a budget, once for each way to choose what goes.

Records are as long as their chunks' tokens tell, at a small number of bytes per token; keys and values are zeros.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from store import (
    AskEntry,
    Budget,
    Candidate,
    ChunkRecord,
    ChunkStore,
    DocumentEntry,
    Rank,
    StoreIdentity,
    build_record,
    by_importance,
    content_key,
    evicted_of,
    set_budget,
)
from store.budget import disk_bytes

from .trace import Arrival, Question, Trace

NUM_LAYERS = 3
LAYER_BYTES_PER_TOKEN = 64
LEAST_BUDGET_BYTES = 4_000_000
IDENTITY = StoreIdentity(bytes(32), "none", bytes(32), {"bits": 8, "group": 32, "contexts": 2})


def without_attention(candidate: Candidate) -> float:
    """As the store's own order, but a use counts the same whatever the question looked at."""
    known = candidate.known
    return by_importance(candidate._replace(known=None if known is None else replace(known, mass=0.0)))


def least_recently_used(candidate: Candidate) -> float:
    """By the time of the last use."""
    return 0.0 if candidate.known is None else candidate.known.at


def least_frequently_used(candidate: Candidate) -> float:
    """By the number of asks, and among equals by the time of the last one."""
    return 0.0 if candidate.known is None else candidate.known.num_asks + candidate.known.at * 1e-12


POLICIES: Mapping[str, Rank] = {
    "importance": by_importance,
    "no attention": without_attention,
    "LRU": least_recently_used,
    "LFU": least_frequently_used,
}


@dataclass(frozen=True)
class Replay:
    """What came of one policy: chunks and their tokens that questions wanted, and those of them that were stored.

    ``largest_bytes`` is the most that the store took on disk.
    """

    policy: str
    seed: int
    budget_share: float
    budget_bytes: int
    num_wanted: int
    num_hits: int
    tokens_wanted: int
    tokens_hit: int
    num_evicted: int
    largest_bytes: int

    @property
    def hit_rate(self) -> float:
        """Of the chunks."""
        return self.num_hits / self.num_wanted

    @property
    def saved_share(self) -> float:
        """Of the time to compute all that questions wanted, which goes by tokens."""
        return self.tokens_hit / self.tokens_wanted


def replay(trace: Trace, policy: str, seed: int, budget_share: float, folder: Path) -> Replay:
    """Replay a trace with a budget that is that share of all its records, in a new store in ``folder``."""
    documents = [_records(number, tokens) for number, tokens in enumerate(trace.chunk_tokens)]
    total_bytes = sum(record.header.total_bytes for records in documents for record in records)
    budget_bytes = max(LEAST_BUDGET_BYTES, round(budget_share * total_bytes))
    with ChunkStore.create(folder / "store", IDENTITY) as store:
        store.rank = POLICIES[policy]
        set_budget(store, Budget(budget_bytes))
        wanted: list[tuple[int, bool]] = []
        largest_bytes = 0
        for event in trace.events:
            if isinstance(event, Arrival):
                store.put_document(_entry(event.document, documents, event.at), documents[event.document])
            else:
                wanted += _ask(store, documents, event)
            largest_bytes = max(largest_bytes, disk_bytes(store.path))
        num_evicted = evicted_of(store).num_records
    hits = [tokens for tokens, is_hit in wanted if is_hit]
    return Replay(
        policy, seed, budget_share, budget_bytes, len(wanted), len(hits), sum(tokens for tokens, _ in wanted),
        sum(hits), num_evicted, largest_bytes,
    )  # fmt: skip


def _ask(store: ChunkStore, documents: Sequence[Sequence[ChunkRecord]], question: Question) -> list[tuple[int, bool]]:
    """Look up what a question wants, and store what was missing, as ``kvboost ask`` does.

    Returns the tokens of each chunk, and whether it was there.
    """
    told, missing = [], defaultdict[int, list[ChunkRecord]](list)
    with store.snapshot() as snapshot:
        for (document, place), _ in question.wanted:
            record = documents[document][place]
            is_hit = snapshot.header(record.key) is not None
            told.append((record.header.num_tokens, is_hit))
            if not is_hit:
                missing[document].append(record)
    for document, records in missing.items():
        store.put_document(_entry(document, documents, question.at), records)
    attention = {documents[document][place].key: mass for (document, place), mass in question.wanted}
    store.record_ask(_ask_entry(question.at), attention)
    return told


def _records(document: int, chunk_tokens: Sequence[int]) -> list[ChunkRecord]:
    return [_record([document, place, *[0] * (tokens - 2)]) for place, tokens in enumerate(chunk_tokens)]


def _record(token_ids: Sequence[int]) -> ChunkRecord:
    layer = bytes(LAYER_BYTES_PER_TOKEN * len(token_ids))
    return build_record(
        content_key(IDENTITY.fingerprint, IDENTITY.recipe, token_ids), [layer] * NUM_LAYERS,
        fingerprint=IDENTITY.fingerprint, recipe=IDENTITY.recipe, dtype="bfloat16", bits=8, group=32, kv_heads=1,
        key_dim=32, value_dim=32, token_ids=token_ids,
    )  # fmt: skip


def _entry(document: int, documents: Sequence[Sequence[ChunkRecord]], at: float) -> DocumentEntry:
    records = documents[document]
    return DocumentEntry(
        name=f"/{document}", root="/", size_bytes=0, mtime_ns=0, content_hash=str(document), kind="text",
        recipe=IDENTITY.recipe.hex(), num_tokens=sum(record.header.num_tokens for record in records),
        chunk_keys=tuple(record.key for record in records), indexed_at=at,
    )  # fmt: skip


def _ask_entry(at: float) -> AskEntry:
    return AskEntry(
        at=at, model="", strategy="none", prompt_tokens=0, exact=0, reused=0, repaired=0, prefilled=0, generated=0,
        ttft_s=0.0, documents_exact=0, documents_content=0, documents_miss=0, speedup=None, documents=(),
    )  # fmt: skip
