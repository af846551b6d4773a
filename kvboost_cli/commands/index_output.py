"""How the outcome of ``kvboost index`` looks: one line for each thing that happened."""

from typing import TYPE_CHECKING

from .plan_output import describe_outlook

if TYPE_CHECKING:
    from ..pipelines.tally import IndexTally

MAX_LISTED = 5


def summary(tally: "IndexTally", *, dry_run: bool) -> str:
    """One line for each thing that happened, or in a dry run would happen."""
    changes = ", ".join(f"{count:,} {change}" for change, count in tally.changes.items() if count)
    lines = [f"documents: {changes or 'none'}, {len(tally.skipped):,} skipped"]
    if tally.num_elsewhere:
        lines.append(f"in other shards: {tally.num_elsewhere:,} documents")
    lines.append(f"chunks: {tally.num_new_chunks:,} new, {tally.num_reused_chunks:,} already stored")
    if dry_run:
        lines.append("dry run: nothing was written")
    if tally.outlook is not None:
        lines += describe_outlook(tally.outlook)
    elif tally.tokens_encoded:
        speed = tally.tokens_encoded / tally.seconds
        lines.append(f"encoded: {tally.tokens_encoded:,} tokens in {tally.seconds:.1f} s ({speed:,.0f} tokens/s)")
    if tally.tokens_exact:
        lines.append(f"exact behind the preamble: {tally.tokens_exact:,} tokens")
    if tally.bytes_written:
        lines.append(f"written: {tally.bytes_written / 1e6:,.1f} MB")
    if tally.num_evicted:
        dropped = f"{tally.num_evicted:,} records, {tally.evicted_bytes / 1e6:,.1f} MB"
        lines.append(f"dropped to keep the budget: {dropped}; questions bring them back")
    passed_over = [skip for skip in tally.skipped if not skip.failed]
    lines.extend(f"passed over, {skip.reason}: {skip.path}" for skip in passed_over[:MAX_LISTED])
    if len(passed_over) > MAX_LISTED:
        lines.append(f"passed over: {len(passed_over) - MAX_LISTED:,} more; --json lists them all")
    return "\n".join(lines) + "\n"
