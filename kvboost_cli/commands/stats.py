"""``kvboost stats``: what the store holds and what it earned. Needs no torch."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from . import options
from .pages import Page

if TYPE_CHECKING:
    from store import ChunkStore, StoreStats

    from ..pipelines.fidelity import FidelityResult


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("stats", cls=Page)(stats)


def stats(store: options.Store = None, as_json: options.AsJson = False) -> None:
    """Show what the store holds and how asks have used it."""
    from .. import console
    from ..pipelines.workspace import open_store

    with open_store(options.load({"store": store}).store_dir) as opened:
        facts, fidelity = opened.stats(), _latest_fidelity(opened)
    if as_json:
        console.write_json(_to_json(facts, fidelity))
    else:
        console.render_table("", ("store", facts.path), [*_rows(facts), _fidelity_row(fidelity)], data=True)


def _latest_fidelity(store: "ChunkStore") -> "FidelityResult | None":
    from ..pipelines.fidelity import latest_result

    with store.snapshot() as snapshot:
        return latest_result(snapshot, store.identity)


def _fidelity_row(fidelity: "FidelityResult | None") -> tuple[str, str]:
    if fidelity is None:
        return ("fidelity", "not checked yet; `kvboost doctor` checks it")
    verdict = "passed" if fidelity.passed else f"failed, {fidelity.reason}"
    return ("fidelity", f"{verdict}; {fidelity.figures}")


def _to_json(facts: "StoreStats", fidelity: "FidelityResult | None") -> dict[str, object]:
    identity = facts.identity
    models = [] if identity is None else [
        {"name": identity.model, "fingerprint": identity.fingerprint.hex(), "recipe": identity.recipe_text}
    ]  # fmt: skip
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
        "models": models,
        "asks": {
            "count": facts.num_asks,
            "exact": facts.documents_exact,
            "content": facts.documents_content,
            "miss": facts.documents_miss,
        },
        "ttft": {"p50_s": facts.ttft_p50_s, "p95_s": facts.ttft_p95_s},
        "fidelity": {} if fidelity is None else asdict(fidelity),
    }


def _rows(facts: "StoreStats") -> list[tuple[str, str]]:
    rows = [
        ("documents", f"{facts.num_documents:,}"),
        ("chunks", f"{facts.num_chunks:,}"),
        ("tokens", f"{facts.num_tokens:,}"),
        ("bytes per token", f"{facts.bytes_per_token:,.0f}"),
        ("file", f"{facts.file_bytes / 1e6:,.1f} MB, {facts.live_bytes / 1e6:,.1f} MB live"),
        ("budget", _budget(facts)),
        ("asks", f"{facts.num_asks:,}"),
        ("documents asked", f"{facts.documents_exact:,} exact, {facts.documents_content:,} content, "
                            f"{facts.documents_miss:,} miss"),
    ]  # fmt: skip
    if facts.identity is not None:
        recipe = facts.identity.recipe_text
        rows.insert(0, ("model", str(facts.identity)))
        rows.insert(1, ("recipe", f"{recipe['bits']} bits, {recipe['contexts']} contexts"))
    if facts.ttft_p50_s is not None and facts.ttft_p95_s is not None:
        rows.append(("TTFT", f"p50 {facts.ttft_p50_s * 1000:,.0f} ms, p95 {facts.ttft_p95_s * 1000:,.0f} ms"))
    return rows


def _budget(facts: "StoreStats") -> str:
    limit_bytes = facts.budget.limit_bytes
    if limit_bytes is None:
        return f"none; {facts.disk_bytes / 1e6:,.1f} MB on disk"
    return (
        f"{limit_bytes / 1e6:,.1f} MB; {facts.disk_bytes / 1e6:,.1f} MB on disk, {facts.num_evicted:,} chunks evicted; "
        f"pinned documents: {facts.num_pinned:,}"
    )
