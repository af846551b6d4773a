"""What indexing will take, told before it: against what the index run then did."""

import json

import pytest
from samples import Desk, make_text

from kvboost_cli.pipelines.indexing import IndexRequest
from kvboost_cli.pipelines.outlook import Collection, look_through
from kvboost_cli.pipelines.speeds import (
    INDEXING,
    META_NAME,
    PREFILL,
    SpeedSample,
    estimate_index_s,
    estimate_prefill_s,
    index_work,
    make_sample,
    read_speeds,
    record_speed,
)


def preview(desk: Desk) -> Collection:
    with desk.workspace() as workspace:
        return look_through(workspace, IndexRequest([str(desk.docs)], dry_run=True))


def assert_foretold(desk: Desk, seen: Collection) -> None:
    """The run does what was seen before it; the time in a document's entry may be a few digits shorter."""
    with desk.workspace() as workspace:
        before = workspace.store.stats().live_bytes
    tally, _events = desk.index()
    cost = seen.outlook.cost
    assert (tally.tokens_encoded, tally.tokens_exact) == (cost.content_tokens, cost.exact_tokens)
    assert tally.bytes_written == pytest.approx(cost.value_bytes, abs=8 * seen.num_documents)
    with desk.workspace() as workspace:
        grown = workspace.store.stats().live_bytes - before
    assert grown == pytest.approx(cost.file_bytes, rel=0.15, abs=150_000), "also the preamble and the counts"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("bits", [16, 4])
def test_a_preview_tells_tokens_and_bytes_of_the_run(desk: Desk, bits: int, exact: bool) -> None:
    desk.bits, desk.exact = bits, exact
    desk.write("a.md", make_text(1, 6))
    desk.write("b.md", make_text(2))
    desk.write("copy.md", make_text(1, 6))
    seen = preview(desk)
    assert seen.num_documents == 3
    assert bool(seen.outlook.cost.exact_tokens) is exact
    assert_foretold(desk, seen)
    again = preview(desk)
    assert (again.num_tokens, again.outlook.cost.value_bytes) == (seen.num_tokens, 0)


def test_a_preview_of_changes_counts_what_is_new_alone(desk: Desk) -> None:
    desk.write("a.md", make_text(1, 8))
    moved = desk.write("b.md", make_text(2, 6))
    desk.index()
    desk.write("a.md", make_text(1, 8) + "\n" + make_text(3, 2))
    moved.rename(moved.with_name("c.md"))
    seen = preview(desk)
    assert 0 < seen.outlook.cost.content_tokens < seen.outlook.cost.exact_tokens < seen.num_tokens
    assert_foretold(desk, seen)


def test_a_document_beyond_the_context_is_exact_as_far_as_it_goes(desk: Desk) -> None:
    desk.write("long.md", make_text(1, 60))
    seen = preview(desk)
    assert seen.outlook.cost.exact_tokens < seen.outlook.cost.content_tokens
    assert_foretold(desk, seen)


def sample(kind: str, tokens: int, seconds: float, **changes: object) -> SpeedSample:
    facts = {"device": "cpu", "startup_s": 2.0, "machine": "here", "at": 0.0} | changes
    return SpeedSample(kind, tokens=tokens, seconds=seconds, **facts)  # type: ignore[arg-type]


def test_time_is_told_from_earlier_runs_on_the_device_used_last() -> None:
    runs = [
        sample(INDEXING, 9000, 1.0, device="cuda"),
        sample(INDEXING, 100, 1.0),
        sample(INDEXING, 300, 1.0, startup_s=3.0),
        sample(PREFILL, 7, 1.0),
    ]
    assert estimate_index_s(runs, 1000) == 3.0 + 1000 / 200
    assert estimate_index_s(runs, 0) == 0.0
    assert estimate_index_s(runs[-1:], 1000) is None
    assert index_work(100, 50, contexts=2) == 250
    assert index_work(100, 0, contexts=0) == 100


def test_full_prefill_is_told_from_a_prompt_of_about_that_length() -> None:
    runs = [sample(PREFILL, 1000, 1.0), sample(PREFILL, 4000, 6.0), sample(INDEXING, 10, 1.0)]
    assert estimate_prefill_s(runs, 1200) == pytest.approx(1.2)
    assert estimate_prefill_s(runs, 3000) == pytest.approx(4.5)
    assert estimate_prefill_s(runs, 499) is None
    assert estimate_prefill_s(runs, 8001) is None
    assert estimate_prefill_s([], 100) is None


def test_speeds_are_kept_for_this_machine_and_damage_costs_only_the_estimate(desk: Desk) -> None:
    with desk.workspace() as workspace:
        store = workspace.store
        assert read_speeds(store) == ()
        record_speed(store, sample(INDEXING, 10, 1.0, machine="elsewhere"))
        mine = make_sample(INDEXING, "cpu", 10, 2.0, 1.0)
        record_speed(store, mine)
        record_speed(store, make_sample(INDEXING, "cpu", 0, 2.0))
        assert read_speeds(store) == (mine,)
        for number in range(40):
            record_speed(store, make_sample(PREFILL, "cpu", number + 1, 1.0))
        assert [one.tokens for one in read_speeds(store)] == list(range(9, 41))
        for damaged in (b"\xff", b"[1]", json.dumps([{"kind": "x"}]).encode()):
            store.put_meta(META_NAME, damaged)
            assert read_speeds(store) == ()
