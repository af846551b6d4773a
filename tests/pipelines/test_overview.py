"""The figures of `stats`, against naive ones."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import Desk

from kvboost_cli.pipelines.folders import Folders, IndexedFolder
from kvboost_cli.pipelines.overview import (
    NUM_EXTREMES,
    NUM_RECENT,
    Overview,
    ask_facts,
    collection_facts,
    day_facts,
    document_facts,
    read_overview,
)
from kvboost_cli.pipelines.speeds import PREFILL, SpeedSample
from store import AskEntry, DocumentHolding

NOON = datetime(2026, 3, 1, 12).timestamp()
DAY_S = 24 * 3600.0


def make_ask(at: float, *names: str, ttft_s: float = 0.5, speedup: float | None = None) -> AskEntry:
    return AskEntry(at, "m", "none", 10, 1, 2, 3, 4, 5, ttft_s, 1, 2, 3, speedup, names)


def make_holding(name: str, importance: float = 0.0, root: str = "/notes", num_tokens: int = 10) -> DocumentHolding:
    return DocumentHolding(name, root, num_tokens, 2, 0, 100, importance, is_pinned=False)


def test_documents_come_hottest_first_with_their_asks() -> None:
    holdings = [make_holding("/a", 0.5), make_holding("/b", 2.0), make_holding("/c", 0.5), make_holding("/d", 0.5)]
    asks = [make_ask(1.0, "/a", "/c"), make_ask(2.0, "/c", "/gone"), make_ask(3.0, "/b", "/b")]
    facts = document_facts(holdings, asks)
    told = [(one.holding.name, one.num_asks, one.last_asked_at) for one in facts]
    assert told == [("/b", 1, 3.0), ("/c", 2, 2.0), ("/a", 1, 1.0), ("/d", 0, None)]


@pytest.mark.parametrize("count", [0, 1, NUM_EXTREMES, NUM_EXTREMES + 2, 3 * NUM_EXTREMES])
def test_hottest_and_coldest_share_no_document(count: int, desk: Desk) -> None:
    documents = document_facts([make_holding(f"/{number}", float(number)) for number in range(count)], [])
    desk.write("a.md", "One.")
    desk.index()
    with desk.workspace() as workspace:
        overview = replace(read_overview(workspace.store, NOON), documents=documents)
    hottest, coldest = ([int(one.holding.name[1:]) for one in some] for some in (overview.hottest, overview.coldest))
    assert hottest == list(range(count))[::-1][:NUM_EXTREMES]
    assert coldest == [number for number in range(count) if number not in hottest][:NUM_EXTREMES]


def test_a_title_is_the_folders_name_and_the_path_below_it() -> None:
    holdings = [make_holding("/home/notes/sub/a.md", root="/home/notes/"), make_holding("stdin", root="")]
    holdings += [make_holding("/b.md", root="/"), make_holding("/home/c.md", root="/home/notes")]
    assert {one.title for one in document_facts(holdings, [])} == {"notes/sub/a.md", "stdin", "/b.md", "c.md"}


def test_a_document_belongs_to_the_innermost_folder(tmp_path: Path) -> None:
    paths = {name: str(tmp_path / name) for name in ("docs", "docs/api", "docs-old")}
    indexed = [paths["docs"], str(tmp_path / "docs" / "api" / "*.md"), str(tmp_path / "never")]
    folders = Folders(tuple(IndexedFolder(path) for path in indexed))
    names = [f"{paths[folder]}/{name}" for folder, name in (("docs", "a"), ("docs/api", "b"), ("docs-old", "c"))]
    documents = document_facts([make_holding(name) for name in [*names, f"{paths['docs']}/d", "stdin"]], [])
    asks = [make_ask(1.0, names[0], f"{paths['docs']}/d"), make_ask(2.0, names[1], names[0]), make_ask(3.0, "gone")]
    found = [(one.path, one.num_documents, one.num_asks) for one in collection_facts(documents, asks, folders)]
    assert found == [(indexed[0], 2, 2), (indexed[1], 1, 1), (None, 2, 0)]


def test_collections_sum_up_what_their_documents_hold() -> None:
    documents = document_facts([make_holding("/notes/a", num_tokens=7), make_holding("/notes/b", num_tokens=4)], [])
    (one,) = collection_facts(documents, [], Folders((IndexedFolder("/notes"),)))
    assert (one.num_documents, one.num_chunks, one.num_tokens, one.num_bytes) == (2, 4, 11, 200)


def test_days_are_those_of_local_time_and_sum_up_tokens() -> None:
    asks = [make_ask(NOON - DAY_S), make_ask(NOON), make_ask(NOON + 60), make_ask(NOON + 3 * DAY_S)]
    facts = [(one.day.isoformat(), one.num_asks, one.exact, one.prefilled) for one in day_facts(asks)]
    assert facts == [("2026-02-28", 1, 1, 4), ("2026-03-01", 2, 2, 8), ("2026-03-04", 1, 1, 4)]


@given(st.lists(st.tuples(st.floats(0, 4e9), st.integers(0, 50)), max_size=30))
def test_every_ask_is_in_one_day(told: list[tuple[float, int]]) -> None:
    asks = [replace(make_ask(at), exact=exact) for at, exact in told]
    days = day_facts(asks)
    assert sum(one.num_asks for one in days) == len(asks)
    assert sum(one.exact for one in days) == sum(ask.exact for ask in asks)
    assert [one.day for one in days] == sorted({one.day for one in days})


def test_a_speedup_is_measured_or_else_estimated_by_prompts_of_about_that_length() -> None:
    sample = SpeedSample(PREFILL, "cpu", 12, 6.0, 0.0, "here", NOON)
    measured, estimated = ask_facts([make_ask(1.0, speedup=3.0), make_ask(2.0, ttft_s=0.5)], [sample])
    assert (measured.speedup, measured.is_estimated) == (3.0, False)
    assert (estimated.speedup, estimated.is_estimated) == (pytest.approx(6.0 * 10 / 12 / 0.5), True)
    (unknown,) = ask_facts([make_ask(2.0)], [replace(sample, tokens=1000)])
    assert (unknown.speedup, unknown.is_estimated) == (None, False)


@given(st.lists(st.floats(0.001, 1e3), min_size=1, max_size=90))
def test_the_median_and_what_a_plot_shows(speedups: list[float]) -> None:
    asks = ask_facts([make_ask(float(at), speedup=value) for at, value in enumerate(speedups)], [])
    overview = Overview(None, None, (), (), (), asks)  # type: ignore[arg-type]
    assert overview.speedup.p50 == pytest.approx(np.median(speedups))
    assert (overview.speedup.num_measured, overview.speedup.num_estimated) == (len(speedups), 0)
    assert [ask.speedup for ask in overview.recent] == speedups[-NUM_RECENT:]


def test_without_an_ask_there_is_no_speedup() -> None:
    overview = Overview(None, None, (), (), (), ())  # type: ignore[arg-type]
    assert (overview.speedup.p50, overview.recent, overview.hottest, overview.coldest) == (None, (), (), ())


def test_a_store_is_read_as_a_whole(desk: Desk) -> None:
    desk.write("a.md", "The tide turns at nine. " * 9)
    desk.write("sub/b.md", "The crew waits.")
    desk.index()
    with desk.workspace() as workspace:
        entries = {}
        with workspace.store.snapshot() as snapshot:
            entries = {entry.name: entry for entry in snapshot.documents()}
        hot = next(name for name in entries if name.endswith("b.md"))
        times_s = [0.1 * number for number in range(1, 21)]
        for number, ttft_s in enumerate(times_s):
            attention = dict.fromkeys(entries[hot].chunk_keys, 0.5)
            workspace.store.record_ask(make_ask(NOON + number, hot, ttft_s=ttft_s), attention)
        overview = read_overview(workspace.store, NOON)
        assert overview.stats == workspace.store.stats()
    assert [one.holding.name for one in overview.documents] == [hot, *(name for name in entries if name != hot)]
    assert [ask.ttft_s for ask in overview.asks] == times_s
    for quantile, told in ((50, overview.stats.ttft_p50_s), (95, overview.stats.ttft_p95_s)):
        assert told == np.percentile(times_s, quantile, method="inverted_cdf")
