"""How ``stats`` looks to people: what its tables, bars and plots are made of."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..sheet import Bars, Part, Plot, Table

if TYPE_CHECKING:
    from store import StoreStats

    from ..pipelines.overview import AskFacts, DocumentFacts, Overview

NUM_DAYS = 10
LEAST_PLOTTED = 2
NO_FOLDER = "(below no folder that was indexed)"
NEVER = "-"
Rows = list[tuple[str, str]]


def all_parts(overview: "Overview", *, documents: bool) -> list[Part]:
    """Everything: what the store is and holds, then how it was used."""
    rows = [*_identity_rows(overview.stats), *_moving_rows(overview), ("fidelity", _fidelity(overview))]
    summary = Table("", ("store", overview.stats.path), tuple(rows))
    return [summary, *_collections(overview), *_use(overview), *_documents(overview, documents=documents)]


def watched_parts(overview: "Overview", now: float, *, documents: bool) -> list[Part]:
    """What may change from one look to the next, most interesting first: a screen is cut at its lower end."""
    clock = datetime.fromtimestamp(now).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    summary = Table("", (clock, overview.stats.path), tuple(_moving_rows(overview)))
    return [summary, *_use(overview), *_documents(overview, documents=documents), *_collections(overview)]


def _identity_rows(facts: "StoreStats") -> Rows:
    if facts.identity is None:
        return []
    recipe = facts.identity.recipe_text
    return [("model", str(facts.identity)), ("recipe", f"{recipe['bits']} bits, {recipe['contexts']} contexts")]


def _moving_rows(overview: "Overview") -> Rows:
    facts = overview.stats
    rows = [
        ("documents", f"{facts.num_documents:,}"),
        ("chunks", f"{facts.num_chunks:,}"),
        ("tokens", f"{facts.num_tokens:,}"),
        ("bytes per token", f"{facts.bytes_per_token:,.0f}"),
        ("file", f"{_mb(facts.file_bytes)} MB, {_mb(facts.live_bytes)} MB live"),
        ("budget", _budget(facts)),
        ("asks", f"{facts.num_asks:,}"),
        ("documents asked", f"{facts.documents_exact:,} exact, {facts.documents_content:,} content, "
                            f"{facts.documents_miss:,} miss"),
    ]  # fmt: skip
    if facts.ttft_p50_s is not None and facts.ttft_p95_s is not None:
        rows.append(("TTFT", f"p50 {_ms(facts.ttft_p50_s)} ms, p95 {_ms(facts.ttft_p95_s)} ms"))
    if overview.speedup.p50 is not None:
        rows.append(("speed-up", _speedup(overview)))
    return rows


def _budget(facts: "StoreStats") -> str:
    limit_bytes = facts.budget.limit_bytes
    if limit_bytes is None:
        return f"none; {_mb(facts.disk_bytes)} MB on disk"
    return (
        f"{_mb(limit_bytes)} MB; {_mb(facts.disk_bytes)} MB on disk, {facts.num_evicted:,} chunks evicted; "
        f"pinned documents: {facts.num_pinned:,}"
    )


def _speedup(overview: "Overview") -> str:
    found = overview.speedup
    known = [f"{found.num_measured:,} measured"] if found.num_measured else []
    known += [f"{found.num_estimated:,} estimated"] if found.num_estimated else []
    return f"p50 {found.p50:.1f}x of full prefill; {', '.join(known)}"


def _fidelity(overview: "Overview") -> str:
    found = overview.fidelity
    if found is None:
        return "not checked yet; `kvboost doctor` checks it"
    verdict = "passed" if found.passed else f"failed, {found.reason}"
    return f"{verdict}; {found.figures}"


def _collections(overview: "Overview") -> list[Part]:
    rows = tuple(
        (
            f"{one.num_documents:,}", f"{one.num_chunks:,}", f"{one.num_tokens:,}", _mb(one.num_bytes),
            _per_token(one.num_bytes, one.num_tokens), f"{one.num_asks:,}", one.path or NO_FOLDER,
        )
        for one in overview.collections
    )  # fmt: skip
    columns = ("documents", "chunks", "tokens", "MB", "B/token", "asks", "collection")
    return [Table("collections", columns, rows, ("chunks", "B/token", "asks", "tokens"))] if rows else []


def _use(overview: "Overview") -> list[Part]:
    recent = overview.recent
    return [*_plots(recent), *_days(overview)]


def _plots(recent: "Sequence[AskFacts]") -> list[Part]:
    times_ms = tuple(ask.ttft_s * 1000 for ask in recent)
    speedups = tuple(ask.speedup for ask in recent if ask.speedup is not None)
    parts: list[Part] = []
    if len(times_ms) >= LEAST_PLOTTED:
        parts.append(Plot("TTFT of the latest asks, ms", times_ms, lambda value: f"{value:,.0f}"))
    if len(speedups) >= LEAST_PLOTTED:
        parts.append(Plot("their speed-up over full prefill", speedups, lambda value: f"{value:.1f}x"))
    return parts


def _days(overview: "Overview") -> list[Part]:
    rows = tuple(
        (one.day.isoformat(), (one.exact, one.reused, one.repaired, one.prefilled)) for one in overview.days[-NUM_DAYS:]
    )
    names = ("exact", "reused", "repaired", "prefilled")
    return [Bars("tokens of prompts by day", "day", names, rows)] if rows else []


def _documents(overview: "Overview", *, documents: bool) -> list[Part]:
    if documents:
        return _document_table("documents, hottest first", overview.documents)
    return [*_document_table("hottest", overview.hottest), *_document_table("coldest", overview.coldest)]


def _document_table(title: str, found: "Sequence[DocumentFacts]") -> list[Part]:
    rows = tuple(
        (
            f"{one.holding.importance:.2f}", f"{one.num_asks:,}", _day_of(one.last_asked_at),
            f"{one.holding.num_tokens:,}", _mb(one.holding.num_bytes), _name(one),
        )
        for one in found
    )  # fmt: skip
    columns = ("importance", "asks", "last asked", "tokens", "MB", "document")
    return [Table(title, columns, rows, ("tokens", "MB", "last asked", "asks"))] if rows else []


def _name(one: "DocumentFacts") -> str:
    marks = ["pinned"] * one.holding.is_pinned
    if one.holding.num_evicted:
        marks.append(f"{one.holding.num_evicted:,} of {one.holding.num_chunks:,} chunks evicted")
    return f"{one.title} ({', '.join(marks)})" if marks else one.title


def _day_of(at: float | None) -> str:
    return NEVER if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d")


def _per_token(num_bytes: int, num_tokens: int) -> str:
    return f"{num_bytes / num_tokens:,.0f}" if num_tokens else NEVER


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}"
