"""Prewarming: the orders that were asked become exact, what has changed is indexed again, and nothing stale stays."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from prewarming import ask, chain_names, index_four, opened, prewarm
from samples import Desk, ask_request, hit_kinds, make_text, reference_logits

from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.chains import plan_chains
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.refreshing import Deadline
from kvboost_cli.pipelines.warming import warm_page_cache
from store import Snapshot

# fp32 in another order of sums, logits of about 6
TOLERANCE = {"atol": 1e-4, "rtol": 0}

E, C, M = Hit.EXACT, Hit.CONTENT, Hit.MISS


@pytest.fixture
def paths(desk: Desk) -> list[Path]:
    return index_four(desk)


@pytest.mark.parametrize("order", [(0, 1), (2, 0, 3), (1, 1, 0)])
def test_an_order_that_was_asked_equals_full_prefill_next_time(
    desk: Desk, paths: Sequence[Path], order: tuple[int, ...]
) -> None:
    request = ask_request(*(paths[place] for place in order))
    with opened(desk) as workspace:
        first = ask(workspace, request)
        assert hit_kinds(first) == [{E}, *([{C}] * (len(order) - 1))]
        done = prewarm(workspace)
        assert (done.made.num_made, done.made.num_tokens) == (1, done.plan.to_make[0].num_tokens)
        again = start_answer(workspace, request).stitched
        expected = reference_logits(workspace, again.prompt.token_ids)
    assert hit_kinds(again) == [{E}] * len(order)
    assert again.plan.fresh_positions() == []
    torch.testing.assert_close(again.logits, expected, **TOLERANCE)


def test_other_questions_and_longer_prompts_are_exact_as_far_as_the_order_goes(
    desk: Desk, paths: Sequence[Path]
) -> None:
    with opened(desk) as workspace:
        ask(workspace, ask_request(paths[0], paths[1]))
        prewarm(workspace)
        other = ask_request(paths[0], paths[1], paths[2], question="What is a lantern for?")
        assert hit_kinds(start_answer(workspace, other).stitched) == [{E}, {E}, {C}]
        swapped = ask_request(paths[1], paths[0])
        assert hit_kinds(start_answer(workspace, swapped).stitched) == [{E}, {C}]


def test_a_second_run_has_nothing_to_do(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        ask(workspace, ask_request(paths[0], paths[1]))
        prewarm(workspace)
        again = prewarm(workspace)
        assert (again.plan.to_make, again.plan.dropped, again.made.num_tried) == ((), (), 0)
        assert len(again.plan.made) == 1
        assert again.tally.changes == {"added": 0, "updated": 0, "unchanged": 4, "removed": 0}


def test_another_system_message_has_chains_of_its_own(desk: Desk, paths: Sequence[Path]) -> None:
    terse = ask_request(paths[0], paths[1], system="You are terse.")
    with opened(desk) as workspace:
        assert hit_kinds(ask(workspace, terse)) == [{C}, {C}]
        assert prewarm(workspace).made.num_made == 1
        again = start_answer(workspace, terse).stitched
        expected = reference_logits(workspace, again.prompt.token_ids)
        assert hit_kinds(start_answer(workspace, ask_request(paths[0], paths[1])).stitched) == [{E}, {C}]
    assert hit_kinds(again) == [{E}, {E}]
    torch.testing.assert_close(again.logits, expected, **TOLERANCE)


def test_an_excerpt_becomes_exact_until_its_document_changes(desk: Desk) -> None:
    desk.bits = 16
    texts = {name: make_text(seed, 12) for name, seed in (("a.md", 1), ("b.md", 2))}
    marked = {name: f"{text}\n\nThe {name[0] * 4}zither stands here. {make_text(9, 1)}" for name, text in texts.items()}
    for name, text in marked.items():
        desk.write(name, text)
    desk.index()
    request = ask_request(question="Where does the aaaazither or the bbbbzither stand?", top_k=2)
    with opened(desk) as workspace:
        first = ask(workspace, request)
        assert any(chunk.place for chunk in first.prompt.documents[0].chunks[:1]), "it begins within the document"
        assert M in {segment.header_hit for segment in first.plan.segments}
        prewarm(workspace)
        again = start_answer(workspace, request).stitched
        expected = reference_logits(workspace, again.prompt.token_ids)
        assert again.prompt.token_ids == first.prompt.token_ids
        assert hit_kinds(again) == [{E}, {E}]
        assert again.plan.fresh_positions() == []
        torch.testing.assert_close(again.logits, expected, **TOLERANCE)
        desk.write("a.md", marked["a.md"].replace("stands", "stood"))
        desk.write("b.md", marked["b.md"].replace("stands", "stood"))
        assert prewarm(workspace).plan.to_make == ()
        assert chain_names(workspace) == []


def test_only_the_orders_asked_most_are_kept(desk: Desk, paths: Sequence[Path]) -> None:
    pairs = [(0, 1), (2, 3), (3, 0)]
    with opened(desk) as workspace:
        for count, pair in enumerate(pairs, start=1):
            for _ in range(count):
                ask(workspace, ask_request(*(paths[place] for place in pair)))
        prewarm(workspace, top=2)
        assert chain_names(workspace) == [["2.md", "3.md"], ["3.md", "0.md"]]
        size = workspace.store.stats().live_bytes
        dropped = prewarm(workspace, top=1)
        assert (dropped.made.num_dropped, dropped.made.num_tried) == (1, 0)
        assert chain_names(workspace) == [["3.md", "0.md"]]
        assert workspace.store.stats().live_bytes < size
        prewarm(workspace, top=0)
        assert chain_names(workspace) == []


def test_an_order_that_another_begins_with_takes_no_place(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        for order in ((0, 1), (0, 1, 2), (0, 1), (1, 0)):
            ask(workspace, ask_request(*(paths[place] for place in order)))
        prewarm(workspace, top=2)
        assert chain_names(workspace) == [["0.md", "1.md", "2.md"], ["1.md", "0.md"]]


def test_without_exact_documents_the_first_ones_asked_become_exact(desk: Desk) -> None:
    desk.exact = False
    paths = [desk.write(f"{seed}.md", make_text(seed)) for seed in range(2)]
    desk.index()
    with opened(desk) as workspace:
        assert hit_kinds(ask(workspace, ask_request(paths[0]))) == [{C}]
        prewarm(workspace)
        assert hit_kinds(start_answer(workspace, ask_request(paths[0])).stitched) == [{E}]
        assert prewarm(workspace).made.num_tried == 0


def test_time_that_is_up_begins_nothing_and_drops_nothing(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        ask(workspace, ask_request(paths[0], paths[1]))
        prewarm(workspace)
        ask(workspace, ask_request(paths[2], paths[3]))
        late = prewarm(workspace, top=1, deadline=Deadline(0.0))
        assert (late.made.num_tried, late.made.is_complete) == (0, False)
        assert chain_names(workspace) == [["0.md", "1.md"]]
        for number in range(3):
            desk.write(f"new-{number}.md", make_text(80 + number))
        assert prewarm(workspace, deadline=Deadline(0.0)).tally.changes["added"] == 1, "the one that was begun"
        done = prewarm(workspace)
        assert (done.tally.changes["added"], done.made.is_complete) == (2, True)


def named_records(snapshot: Snapshot, path: Path) -> tuple[bytes, ...]:
    entry = snapshot.document(str(path))
    assert entry is not None
    return (*entry.chunk_keys, *entry.position_keys)


def test_hot_records_are_read_up_to_a_limit(desk: Desk, paths: Sequence[Path]) -> None:
    with opened(desk) as workspace:
        ask(workspace, ask_request(paths[0], paths[1], repair="question"))
        prewarm(workspace)
        plan = plan_chains(workspace, 20)
        everything = warm_page_cache(workspace.store, plan.made, 1 << 40)
        with workspace.store.snapshot() as snapshot:
            asked = {key for path in paths[:2] for key in named_records(snapshot, path)}
            num_asked = len({*asked, *plan.made[0].entry.position_keys, plan.made[0].entry.preamble})
        assert everything.num_records == num_asked, "what nobody has asked for is left where it is"
        some = warm_page_cache(workspace.store, plan.made, everything.num_bytes // 2)
        assert everything.num_records > 1 + len(plan.made[0].links), "chunks that a question looked at come behind"
        assert everything.num_records > some.num_records > 0
        assert some.num_bytes <= everything.num_bytes // 2
        key = plan.made[0].links[-1].key
    desk.damage(key, layer=1, database="positions")
    with opened(desk) as workspace:
        assert warm_page_cache(workspace.store, plan.made, 1 << 40).num_damaged == 1
