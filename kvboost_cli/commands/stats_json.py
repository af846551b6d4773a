"""What ``stats`` prints for programs."""

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store import StoreIdentity, StoreStats

    from ..pipelines.overview import AskFacts, CollectionFacts, DayFacts, DocumentFacts, Overview

Json = dict[str, object]


def to_json(overview: "Overview", *, documents: bool) -> Json:
    """All figures; every document only on request, since they may be many."""
    facts, fidelity = overview.stats, overview.fidelity
    return {
        **_holdings(facts),
        "models": [] if facts.identity is None else [_model(facts.identity)],
        "collections": [_collection(one) for one in overview.collections],
        "by_document": [_document(one) for one in overview.documents] if documents else None,
        "hottest": [_document(one) for one in overview.hottest],
        "coldest": [_document(one) for one in overview.coldest],
        **_asks(overview),
        "fidelity": {} if fidelity is None else asdict(fidelity),
    }


def _holdings(facts: "StoreStats") -> Json:
    return {
        "store": facts.path,
        "format": facts.format,
        "bytes": {
            "file": facts.file_bytes,
            "live": facts.live_bytes,
            "disk": facts.disk_bytes,
            "budget": facts.budget.limit_bytes,
        },
        "documents": facts.num_documents,
        "chunks": facts.num_chunks,
        "evicted": facts.num_evicted,
        "pinned": facts.num_pinned,
        "tokens": facts.num_tokens,
        "bytes_per_token": facts.bytes_per_token,
    }


def _asks(overview: "Overview") -> Json:
    facts, speedup = overview.stats, overview.speedup
    return {
        "asks": {
            "count": facts.num_asks,
            "exact": facts.documents_exact,
            "content": facts.documents_content,
            "miss": facts.documents_miss,
        },
        "ttft": {"p50_s": facts.ttft_p50_s, "p95_s": facts.ttft_p95_s},
        "speedup": {"p50": speedup.p50, "measured": speedup.num_measured, "estimated": speedup.num_estimated},
        "days": [_day(one) for one in overview.days],
        "recent": [_ask(one) for one in overview.recent],
    }


def _model(identity: "StoreIdentity") -> Json:
    return {"name": identity.model, "fingerprint": identity.fingerprint.hex(), "recipe": identity.recipe_text}


def _collection(one: "CollectionFacts") -> Json:
    return {
        "path": one.path,
        "documents": one.num_documents,
        "chunks": one.num_chunks,
        "tokens": one.num_tokens,
        "bytes": one.num_bytes,
        "asks": one.num_asks,
    }


def _document(one: "DocumentFacts") -> Json:
    held = one.holding
    return {
        "path": held.name,
        "tokens": held.num_tokens,
        "chunks": held.num_chunks,
        "evicted": held.num_evicted,
        "bytes": held.num_bytes,
        "pinned": held.is_pinned,
        "asks": one.num_asks,
        "last_asked": None if one.last_asked_at is None else _time(one.last_asked_at),
        "importance": held.importance,
    }


def _day(one: "DayFacts") -> Json:
    tokens = {"exact": one.exact, "reused": one.reused, "repaired": one.repaired, "prefilled": one.prefilled}
    return {"day": one.day.isoformat(), "asks": one.num_asks, "tokens": tokens}


def _ask(one: "AskFacts") -> Json:
    return {"at": _time(one.at), "ttft_s": one.ttft_s, "speedup": one.speedup, "estimated": one.is_estimated}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
