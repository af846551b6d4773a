"""How a prewarm run looks: a line for each step that did something, or one JSON object."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import console

if TYPE_CHECKING:
    from ..pipelines.chains import ChainPlan, MadeChains, OrderChain
    from ..pipelines.compaction import CompactReport
    from ..pipelines.tally import IndexTally
    from ..pipelines.warming import Warmed

MAX_LISTED = 20


@dataclass(frozen=True)
class Prewarmed:
    """What a run did, step by step; ``compacted`` and ``warmed`` are None where that was not done."""

    tally: "IndexTally"
    plan: "ChainPlan"
    made: "MadeChains"
    compacted: "CompactReport | None"
    warmed: "Warmed | None"
    seconds: float

    @property
    def did_something(self) -> bool:
        """Whether the store is another one than before."""
        changes = self.tally.changes
        documents = sum(changes[change] for change in ("added", "updated", "removed")) + self.tally.tokens_exact
        return bool(documents or self.made.num_tried or self.made.num_dropped or self.compacted)


def tell_documents(tally: "IndexTally", *, silent: bool, dry_run: bool) -> None:
    """What became of documents, if anything did."""
    changes = ", ".join(f"{count:,} {change}" for change, count in tally.changes.items() if count)
    is_changed = tally.changes["unchanged"] < sum(tally.changes.values())
    if silent or not (is_changed or tally.tokens_exact):
        return
    would = "would be " if dry_run else ""
    lines = [f"documents: {would}{changes}"]
    if tally.tokens_encoded:
        lines.append(f"encoded: {tally.tokens_encoded:,} tokens in {tally.seconds:.1f} s")
    console.write_facts("\n".join(lines) + "\n")


def tell_orders(plan: "ChainPlan", made: "MadeChains", *, silent: bool, dry_run: bool) -> None:
    """What became of orders; in a dry run each that would be made exact."""
    if silent:
        return
    if dry_run:
        console.write_facts(
            "".join(f"would be made exact: {_describe(chain)}\n" for chain in plan.to_make[:MAX_LISTED])
        )
        if len(plan.to_make) > MAX_LISTED:
            console.write_facts(
                f"would be made exact: {len(plan.to_make) - MAX_LISTED:,} more; --json lists them all\n"
            )
    elif made.num_tried or made.num_dropped:
        console.write_facts(
            f"orders: {made.num_made:,} made exact ({made.num_tokens:,} tokens in {made.seconds:.1f} s), "
            f"{len(plan.made):,} were, {made.num_dropped:,} dropped\n"
        )


def tell_compaction(report: "CompactReport", *, silent: bool) -> None:
    """Sizes before and after."""
    if not silent:
        sizes = report.data
        console.write_facts(
            f"compacted: {sizes.bytes_before / 1e6:,.1f} MB before, {sizes.bytes_after / 1e6:,.1f} MB now\n"
        )


def tell_warming(warmed: "Warmed", *, silent: bool) -> None:
    """What was read."""
    if not silent:
        console.write_facts(f"page cache: {warmed.num_records:,} records, {warmed.num_bytes / 1e6:,.1f} MB\n")


def finish(prewarmed: Prewarmed, *, as_json: bool, quiet: bool, dry_run: bool) -> None:
    """The object of ``--json``; or what the lines before left open."""
    if as_json:
        console.write_json(_to_json(prewarmed))
        return
    if quiet:
        return
    if not prewarmed.made.is_complete:
        console.write_facts("out of time: the next run goes on\n")
    if dry_run:
        console.write_facts("dry run: nothing was changed\n")
    elif not prewarmed.did_something:
        unchanged = prewarmed.tally.changes["unchanged"]
        console.write_facts(f"nothing to do: {unchanged:,} documents, {len(prewarmed.plan.made):,} orders exact\n")


def _describe(chain: "OrderChain") -> str:
    names = ", ".join(document.name for document in chain.entry.documents)
    return f"{names} ({chain.num_tokens:,} tokens, asked {chain.demand.num_asks:,} times)"


def _to_json(prewarmed: Prewarmed) -> dict[str, object]:
    from . import compact

    plan, made, warmed = prewarmed.plan, prewarmed.made, prewarmed.warmed
    return {
        **prewarmed.tally.to_json(),
        "orders": {
            "made": made.num_made,
            "exact_before": len(plan.made),
            "dropped": made.num_dropped,
            "tokens": made.num_tokens,
            "bytes_written": made.num_bytes,
            "wanted": [_order(chain) for chain in (*plan.made, *plan.to_make)],
        },
        "page_cache": warmed and {
            "records": warmed.num_records, "bytes": warmed.num_bytes, "damaged": warmed.num_damaged
        },
        "compacted": prewarmed.compacted and compact.to_json(prewarmed.compacted),
        "complete": made.is_complete,
        "seconds": prewarmed.seconds,
    }  # fmt: skip


def _order(chain: "OrderChain") -> dict[str, object]:
    return {
        "documents": [document.name for document in chain.entry.documents],
        "asks": chain.demand.num_asks,
        "tokens": chain.num_tokens,
        "missing_tokens": sum(len(link.token_ids) for link in chain.links if link.key in chain.missing),
    }
