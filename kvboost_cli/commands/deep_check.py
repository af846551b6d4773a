"""``kvboost doctor --check`` and ``--repair``: a walk through everything in a store. Needs no torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from . import failures, options
from .checkup import FAILED, NOT_CHECKED, OK, Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from store import ChunkStore, Fault, Step

    from ..progress import StepProgress
    from ..settings import Settings

REPAIRED = "repaired"
MAX_FAULTS = 1000
_NEXT = "run `kvboost doctor --repair`: it drops what is bad; `kvboost index` then makes it anew"
_NEXT_PAGES = "move the store's directory away and run `kvboost index` again"
_UNITS = {
    "pages": "pages of LMDB", "chunks": "chunks", "positions": "exact records", "documents": "documents",
    "counts": "counts", "asks": "asks", "meta": "pieces of metadata",
}  # fmt: skip
_NAMES = {"data.mdb": "pages", "refs": "counts", "position_refs": "counts", "usage": "counts"}
"""The check that a database belongs to; the others are named as their database."""


@dataclass
class Findings:
    """What one check found so far."""

    num_entries: int = 0
    num_bytes: int = 0
    num_absent: int = 0
    faults: "list[Fault]" = field(default_factory=list)
    num_faults: int = 0


@dataclass(frozen=True)
class DeepCheck:
    """A walk that is over: a line for each part, and the first ``MAX_FAULTS`` of all faults."""

    store: str
    checks: tuple[Check, ...]
    faults: "tuple[Fault, ...]"
    num_faults: int
    num_bytes: int
    seconds: float

    @property
    def healthy(self) -> bool:
        """Whether nothing is bad, or nothing is bad any more."""
        return all(check.state in (OK, REPAIRED) for check in self.checks)


def walk(settings: "Settings", *, repair: bool, no_wait: bool, quiet: bool) -> DeepCheck:
    """Check everything in the store, and with ``repair`` drop what is bad; raises the store's errors if none opens."""
    from .. import console

    started = perf_counter()
    with _opened(settings, repair=repair, no_wait=no_wait) as store:
        with console.step_progress("checking the store", quiet=quiet) as show:
            findings = _collect(store, repair, show)
        checks = [_judge(name, findings[name], findings, repair) for name in _UNITS]
        search = _judge_search(store, settings, repair)
        path = str(store.path)
    faults = [fault for found in findings.values() for fault in found.faults]
    return DeepCheck(
        path,
        (*checks, search),
        tuple(faults[:MAX_FAULTS]),
        sum(found.num_faults for found in findings.values()),
        sum(found.num_bytes for found in findings.values()),
        perf_counter() - started,
    )


@contextmanager
def _opened(settings: "Settings", *, repair: bool, no_wait: bool) -> "Iterator[ChunkStore]":
    from ..pipelines.workspace import open_store

    if repair:
        with options.changing_store(settings, no_wait=no_wait) as store:
            yield store
        return
    with open_store(settings.store_dir) as store:
        yield store


def _collect(store: "ChunkStore", repair: bool, show: "Callable[[StepProgress], None]") -> dict[str, Findings]:
    from store import Fault, check_store, repair_store

    from ..pipelines.upkeep import store_rules
    from ..progress import StepProgress

    findings = {name: Findings() for name in _UNITS}
    total_bytes, done_bytes = store.stats().live_bytes, 0
    for found in (repair_store if repair else check_store)(store, store_rules()):
        into = findings[_NAMES.get(found.database, found.database)]
        if isinstance(found, Fault):
            _add_fault(into, found)
            continue
        _add_step(into, found)
        done_bytes += found.num_bytes
        show(StepProgress(round(done_bytes / 1e6), max(round(total_bytes / 1e6), round(done_bytes / 1e6)), "MB"))
    return findings


def _add_fault(into: Findings, fault: "Fault") -> None:
    into.num_faults += 1
    if len(into.faults) < MAX_FAULTS:
        into.faults.append(fault)


def _add_step(into: Findings, step: "Step") -> None:
    into.num_entries += step.num_entries
    into.num_bytes += step.num_bytes
    into.num_absent += step.num_absent


def _judge(name: str, found: Findings, findings: dict[str, Findings], repair: bool) -> Check:
    """One part as a line of the list."""
    if name == "pages":
        if not found.num_faults:
            return Check(name, OK, "the pages of data.mdb and their trees are sound")
        return Check(name, FAILED, f"{found.num_faults:,} faults, such as: {found.faults[0].reason}", _NEXT_PAGES)
    if findings["pages"].num_faults:
        return Check(name, NOT_CHECKED, "the pages that hold it are damaged")
    told = f"{found.num_entries:,} {_UNITS[name]}"
    if found.num_absent:
        told += f"; {found.num_absent:,} records that documents name are not stored, and are made anew when needed"
    if not found.num_faults:
        return Check(name, OK, told)
    first = found.faults[0]
    told += f"; {found.num_faults:,} faults, such as {key_text(first)}: {first.reason}"
    return Check(name, REPAIRED, told) if repair else Check(name, FAILED, told, _NEXT)


def key_text(fault: "Fault") -> str:
    """Where a fault is, for people: a document's name, else the key in hexadecimal."""
    if fault.database in ("documents", "meta"):
        return fault.key.decode("utf-8", "backslashreplace")
    return fault.key.hex()


def _judge_search(store: "ChunkStore", settings: "Settings", repair: bool) -> Check:
    from ..pipelines.upkeep import check_search

    try:
        state = check_search(store)
        told = f"{state.num_documents:,} documents, {state.num_lacking:,} of them not in the search index"
        if state.num_surplus:
            told += f", and {state.num_surplus:,} in it that are not stored"
        if state.fault is not None:
            told = f"{state.fault}; {told}"
        if state.is_sound:
            return Check("search", OK, f"{state.num_documents:,} documents can be found by their words")
        if not repair:
            return Check("search", FAILED, told, _NEXT)
        _rebuild_search(store, settings)
        return Check("search", REPAIRED, told)
    except Exception as error:
        if failures.find_failure(error) is None:
            raise
        return Check("search", FAILED, *failures.describe(error))


def _rebuild_search(store: "ChunkStore", settings: "Settings") -> None:
    """Rows come from the store's token ids, by the model's tokenizer; a file that is damaged is made anew."""
    from ..pipelines.upkeep import discard_damaged_search

    discard_damaged_search(store)
    with options.open_workspace(settings) as workspace:
        _ = workspace.search
