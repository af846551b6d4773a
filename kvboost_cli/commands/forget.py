"""``kvboost forget``: remove documents, and what is left of them. Needs no torch."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import complete, options
from .pages import Page

if TYPE_CHECKING:
    from ..pipelines.compaction import CompactReport
    from ..pipelines.forgetting import ForgetReport


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("forget", cls=Page)(forget)


def forget(
    documents: Annotated[
        list[str],
        typer.Argument(metavar="DOC...", help="Files, or ends of stored names.", autocompletion=complete.documents),
    ],
    store: options.Store = None,
    compact: Annotated[bool, typer.Option("--compact", help="Compact at once, so that no byte of them stays.")] = False,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Remove documents with their KV, search text, usage, and their names in past asks. Files are left alone."""
    from .. import console
    from ..pipelines import forgetting
    from .compact import run_compaction

    with options.changing_store(options.load({"store": store}), no_wait=no_wait) as opened:
        report = forgetting.forget(opened, forgetting.resolve_forgotten(opened, documents))
        compacted = run_compaction(opened, quiet=quiet) if compact else None
    if as_json:
        console.write_json(_to_json(report, compacted))
    elif not quiet:
        console.write_facts(_to_text(report, compacted))


def _to_json(report: "ForgetReport", compacted: "CompactReport | None") -> dict[str, object]:
    from .compact import to_json

    forgotten = report.forgotten
    return {
        "documents": report.names,
        "records": {"dropped": forgotten.num_records, "shared": forgotten.num_kept_records},
        "asks": forgotten.num_asks,
        "fillers": report.num_fillers,
        "compacted": None if compacted is None else to_json(compacted),
    }


def _to_text(report: "ForgetReport", compacted: "CompactReport | None") -> str:
    forgotten = report.forgotten
    lines = [f"forgotten: {name}" for name in report.names]
    lines.append(f"records: {forgotten.num_records:,} dropped; past asks that named it: {forgotten.num_asks:,}")
    if forgotten.num_kept_records:
        lines.append(f"records: {forgotten.num_kept_records:,} stay, since other documents have the same text")
    if report.num_fillers:
        lines.append(
            f"fillers: {report.num_fillers:,} taken out; KV that other documents got behind them stays as it is"
        )
    if compacted is None:
        lines.append("its bytes are in free space of the store's files until `kvboost compact`")
    else:
        lines.append("the store's files were rewritten without its bytes")
    return "\n".join(lines) + "\n"
