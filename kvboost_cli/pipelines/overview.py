"""What a store holds and what it earned, as figures: read from the store here, and shown by whoever wants to.

Asks are counted as far as they are kept: the latest 1,000, and none from before the history was cleared.
"""

import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from store import AskEntry, ChunkStore, DocumentHolding, StoreStats, list_asks, read_holdings

from ..documents import fixed_part
from .fidelity import FidelityResult, latest_result
from .folders import Folders, read_folders
from .speeds import SpeedSample, estimate_prefill_s, read_speeds

NUM_RECENT = 60
"""Asks that a plot shows."""

NUM_EXTREMES = 5
"""The hottest documents, and as many of the coldest."""


@dataclass(frozen=True)
class DocumentFacts:
    """A document with the number of kept asks that had it; ``last_asked_at`` is Unix time, None without one."""

    holding: DocumentHolding
    num_asks: int
    last_asked_at: float | None

    @property
    def title(self) -> str:
        """The indexed folder's name and the path below it; the whole name where it has no folder."""
        name, folder = self.holding.name, os.path.dirname(self.holding.root.rstrip(os.sep))
        return os.path.relpath(name, folder) if folder and name.startswith(folder.rstrip(os.sep) + os.sep) else name


@dataclass(frozen=True)
class CollectionFacts:
    """The documents below a folder that was indexed; ``path`` is None for those below none.

    A chunk that several documents share counts for each; ``num_asks`` had at least one of the documents.
    """

    path: str | None
    num_documents: int
    num_chunks: int
    num_tokens: int
    num_bytes: int
    num_asks: int


@dataclass(frozen=True)
class DayFacts:
    """The asks of one day in local time: how many, and where their prompts' tokens came from."""

    day: date
    num_asks: int
    exact: int
    reused: int
    repaired: int
    prefilled: int


@dataclass(frozen=True)
class AskFacts:
    """One ask; ``speedup`` over full prefill was measured by ``--verify`` or ``is_estimated`` by such asks."""

    at: float
    ttft_s: float
    speedup: float | None
    is_estimated: bool


@dataclass(frozen=True)
class SpeedupFacts:
    """The median over kept asks, and how many of those were measured and estimated."""

    p50: float | None
    num_measured: int
    num_estimated: int


@dataclass(frozen=True)
class Overview:
    """``documents`` are in order, hottest first; ``days`` and ``asks`` with the latest last."""

    stats: StoreStats
    fidelity: FidelityResult | None
    collections: tuple[CollectionFacts, ...]
    documents: tuple[DocumentFacts, ...]
    days: tuple[DayFacts, ...]
    asks: tuple[AskFacts, ...]

    @property
    def hottest(self) -> tuple[DocumentFacts, ...]:
        """The documents that matter most, most first."""
        return self.documents[:NUM_EXTREMES]

    @property
    def coldest(self) -> tuple[DocumentFacts, ...]:
        """The documents that matter least, least first; those that are among the hottest are left out."""
        return self.documents[NUM_EXTREMES:][-NUM_EXTREMES:][::-1]

    @property
    def recent(self) -> tuple[AskFacts, ...]:
        """The asks that a plot shows."""
        return self.asks[-NUM_RECENT:]

    @property
    def speedup(self) -> SpeedupFacts:
        """What the asks gained."""
        known = [ask.speedup for ask in self.asks if ask.speedup is not None]
        num_estimated = sum(ask.is_estimated for ask in self.asks)
        return SpeedupFacts(statistics.median(known) if known else None, len(known) - num_estimated, num_estimated)


def read_overview(store: ChunkStore, now: float) -> Overview:
    """The store at that Unix time, in several short reads: each is consistent in itself."""
    with store.snapshot() as snapshot:
        fidelity, folders = latest_result(snapshot, store.identity), read_folders(snapshot)
    asks = list_asks(store)[::-1]
    documents = document_facts(read_holdings(store, now), asks)
    return Overview(
        stats=store.stats(),
        fidelity=fidelity,
        collections=collection_facts(documents, asks, folders),
        documents=documents,
        days=day_facts(asks),
        asks=ask_facts(asks, read_speeds(store)),
    )


def document_facts(holdings: Iterable[DocumentHolding], asks: Sequence[AskEntry]) -> tuple[DocumentFacts, ...]:
    """Documents, those that matter most first; ``asks`` with the latest last."""
    counts = Counter(name for ask in asks for name in set(ask.documents))
    last_at = {name: ask.at for ask in asks for name in ask.documents}
    facts = [DocumentFacts(one, counts[one.name], last_at.get(one.name)) for one in holdings]
    return tuple(sorted(facts, key=lambda one: (-one.holding.importance, -one.num_asks, one.holding.name)))


def collection_facts(
    documents: Sequence[DocumentFacts], asks: Sequence[AskEntry], folders: Folders
) -> tuple[CollectionFacts, ...]:
    """Folders in the order in which they were first indexed, then what is below none; empty ones are left out."""
    find = _folder_finder(folders)
    inside: defaultdict[str | None, list[DocumentHolding]] = defaultdict(list)
    for document in documents:
        inside[find(document.holding.name)].append(document.holding)
    known = {document.holding.name for document in documents}
    counts = Counter(path for ask in asks for path in {find(name) for name in ask.documents if name in known})
    paths = [*dict.fromkeys(folder.path for folder in folders.indexed), None]
    return tuple(_collection(path, inside[path], counts[path]) for path in paths if path in inside)


def day_facts(asks: Iterable[AskEntry]) -> tuple[DayFacts, ...]:
    """Days that had asks, oldest first."""
    days: defaultdict[date, list[AskEntry]] = defaultdict(list)
    for ask in asks:
        days[datetime.fromtimestamp(ask.at).astimezone().date()].append(ask)
    return tuple(_day(day, days[day]) for day in sorted(days))


def ask_facts(asks: Iterable[AskEntry], samples: Sequence[SpeedSample]) -> tuple[AskFacts, ...]:
    """Asks with their speed-up as it was measured, or else as this machine's measured prompts let it be estimated."""
    return tuple(_ask(ask, estimate_prefill_s(samples, ask.prompt_tokens)) for ask in asks)


def _folder_finder(folders: Folders) -> Callable[[str], str | None]:
    """Tells the path of the innermost folder, or of the pattern from it, that a document is below."""
    places = {fixed_part(one.path).rstrip(os.sep) + os.sep: one.path for one in reversed(folders.indexed)}
    innermost_first = sorted(places, key=len, reverse=True)
    return lambda name: next((places[place] for place in innermost_first if name.startswith(place)), None)


def _collection(path: str | None, holdings: Sequence[DocumentHolding], num_asks: int) -> CollectionFacts:
    return CollectionFacts(
        path=path,
        num_documents=len(holdings),
        num_chunks=sum(one.num_chunks for one in holdings),
        num_tokens=sum(one.num_tokens for one in holdings),
        num_bytes=sum(one.num_bytes for one in holdings),
        num_asks=num_asks,
    )


def _day(day: date, asks: Sequence[AskEntry]) -> DayFacts:
    return DayFacts(
        day=day,
        num_asks=len(asks),
        exact=sum(ask.exact for ask in asks),
        reused=sum(ask.reused for ask in asks),
        repaired=sum(ask.repaired for ask in asks),
        prefilled=sum(ask.prefilled for ask in asks),
    )


def _ask(ask: AskEntry, prefill_s: float | None) -> AskFacts:
    if ask.speedup is not None or prefill_s is None or ask.ttft_s <= 0:
        return AskFacts(ask.at, ask.ttft_s, ask.speedup, is_estimated=False)
    return AskFacts(ask.at, ask.ttft_s, prefill_s / ask.ttft_s, is_estimated=True)
