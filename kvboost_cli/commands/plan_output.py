"""How plans look: sizes for people, in decimal and binary units."""

from typing import TYPE_CHECKING

from .. import console

if TYPE_CHECKING:
    from ..pipelines.capacity import Capacity, Subject
    from ..pipelines.outlook import Collection, Outlook

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
MINUTE_S, HOUR_S = 60, 3600


def describe_bytes(num_bytes: float) -> str:
    """A size in both kinds of units.

    >>> describe_bytes(37_748_736)
    '37.7 MB (36.0 MiB)'
    """
    if num_bytes < 1000:
        return f"{num_bytes:,.0f} B"
    return f"{_scale(num_bytes, 1000, UNITS)} ({_scale(num_bytes, 1024, BINARY_UNITS)})"


def _scale(num_bytes: float, step: int, units: tuple[str, ...]) -> str:
    power = 0
    while num_bytes >= step and power < len(units) - 1:
        num_bytes, power = num_bytes / step, power + 1
    return f"{num_bytes:,.1f} {units[power]}"


def describe_seconds(seconds: float) -> str:
    """A span of time, as exact as an estimate deserves.

    >>> [describe_seconds(s) for s in (0.4, 47.2, 420, 9000)]
    ['less than a second', '47 s', '7 min', '2.5 h']
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:,.1f} h"


def describe_outlook(outlook: "Outlook") -> list[str]:
    """One line each: what would be encoded, what it takes, and how long, if that can be told."""
    cost = outlook.cost
    if not cost.value_bytes:
        return ["to encode: nothing"]
    exact = f", and {cost.exact_tokens:,} exact ones" if cost.exact_tokens else ""
    lines = [
        f"to encode: {cost.content_tokens:,} tokens{exact}",
        f"to write: {describe_bytes(cost.value_bytes)}; the store grows by about {describe_bytes(cost.file_bytes)}",
    ]
    if outlook.seconds is None:
        return [*lines, "time: not known until something was indexed into this store on this machine"]
    return [*lines, f"time: about {describe_seconds(outlook.seconds)}, as fast as the latest runs on this machine"]


def show(capacity: "Capacity") -> None:
    """The plan as tables on stdout."""
    console.write_facts(f"{_describe_subject(capacity.subject)}\n")
    _show_caches(capacity)
    if capacity.subject.reason is not None:
        console.write_facts(f"kvboost's store: not for this model; {capacity.subject.reason}\n")
    elif capacity.store:
        _show_store(capacity)
    if capacity.collection is not None:
        console.write_facts("\n" + "\n".join(_describe_collection(capacity.collection, capacity.budget)) + "\n")


def _describe_subject(subject: "Subject") -> str:
    layers, first = subject.shape.layers, subject.shape.layers[0]
    size = f"{first.key_dim}" if first.key_dim == first.value_dim else f"{first.key_dim} and {first.value_dim}"
    facts = [f"{len(layers)} layers of {first.kv_heads} key-value heads of {size}"]
    if subject.shape.num_windowed:
        windows = {layer.window for layer in layers if layer.window}
        facts.append(f"{subject.shape.num_windowed} of them keep {', '.join(map(str, sorted(windows)))} tokens")
    if subject.shape.num_stateful:
        facts.append(f"{subject.shape.num_stateful} more keep a state of fixed size, not counted")
    return f"{subject.name or 'a model'}: {'; '.join(facts)}"


def _show_caches(capacity: "Capacity") -> None:
    columns = ["bits", "per token", f"{capacity.context:,} tokens"]
    rows = [
        [str(size.bits), describe_bytes(size.bytes_per_token), describe_bytes(size.bytes)] for size in capacity.caches
    ]
    if capacity.budget is not None:
        columns.append(f"tokens in {_scale(capacity.budget, 1000, UNITS)}")
        for row, size in zip(rows, capacity.caches, strict=True):
            row.append("any number" if size.tokens_in_budget is None else f"{size.tokens_in_budget:,}")
    console.write_facts("\nKV cache of one prompt\n")
    console.render_table("", columns, rows, data=True)


def _show_store(capacity: "Capacity") -> None:
    columns, rows = ["bits", "per token"], [[str(s.bits), describe_bytes(s.bytes_per_token)] for s in capacity.store]
    if capacity.budget is not None:
        columns.append(f"tokens in {_scale(capacity.budget, 1000, UNITS)}")
        for row, size in zip(rows, capacity.store, strict=True):
            row.append(f"{size.tokens_in_budget:,}")
    if capacity.budget is not None and capacity.collection is not None:
        columns.append(f"documents of {capacity.collection.document_tokens:,.0f} tokens")
        for row, size in zip(rows, capacity.store, strict=True):
            row.append(f"{size.documents_in_budget:,}")
    console.write_facts(f"\ndocuments in kvboost's store{', kept exact, too' if capacity.exact else ''}\n")
    console.render_table("", columns, rows, data=True)


def _describe_collection(collection: "Collection", budget: int | None) -> list[str]:
    outlook = collection.outlook
    lines = [f"documents: {collection.num_documents:,}, {collection.num_tokens:,} tokens", *describe_outlook(outlook)]
    if budget is not None:
        total = outlook.stored_bytes + outlook.cost.file_bytes
        verdict = "fits" if total <= budget else "does not fit"
        lines.append(f"the store would then hold {describe_bytes(total)}, which {verdict} the budget")
    return lines
