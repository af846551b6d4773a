"""Windows, excerpts, fillers, recipes and the stopwatch: pure functions that decide what is run."""

import json
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvboost_cli.pipelines.clock import PhaseClock
from kvboost_cli.pipelines.errors import SettingRefused
from kvboost_cli.pipelines.excerpt import choose_places
from kvboost_cli.pipelines.fillers import (
    NEUTRAL_TEXTS,
    POOL_SIZE,
    Filler,
    choose_contexts,
    make_pool,
    pool_from_bytes,
    pool_to_bytes,
)
from kvboost_cli.pipelines.recipe import Recipe, make_recipe, recipe_from_facts
from kvboost_cli.pipelines.windows import WindowPlan, plan_windows

SIZES = st.lists(st.integers(1, 512), min_size=1, max_size=12)
CHUNKS = SIZES.flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
)


def test_the_documented_windows() -> None:
    windows = plan_windows([200, 200, 200], [True] * 3, window_tokens=500, overlap_tokens=128)
    assert windows == [WindowPlan(0, 2, 0), WindowPlan(2, 3, 128)]


@given(CHUNKS, st.integers(1, 1600), st.integers(0, 200))
def test_windows_cover_each_missing_chunk_once_and_no_other(
    chunks: tuple[list[int], list[bool]], window_tokens: int, overlap_tokens: int
) -> None:
    sizes, missing = chunks
    windows = plan_windows(sizes, missing, window_tokens, overlap_tokens)
    covered = [place for window in windows for place in range(window.first, window.last)]
    assert covered == [place for place, absent in enumerate(missing) if absent]
    starts = [0, *accumulate(sizes)]
    for window in windows:
        num_tokens = starts[window.last] - starts[window.first]
        assert num_tokens <= window_tokens or window.last - window.first == 1
        assert window.num_context_tokens == min(overlap_tokens, starts[window.first])


@given(SIZES, st.integers(1, 1600))
def test_windows_are_as_few_as_their_order_allows(sizes: list[int], window_tokens: int) -> None:
    windows = plan_windows(sizes, [True] * len(sizes), window_tokens, 0)
    for window, following in pairwise(windows):
        assert sum(sizes[window.first : window.last]) + sizes[following.first] > window_tokens


def test_the_documented_excerpt() -> None:
    assert choose_places([100] * 10, [5], 300) == [4, 5, 6]


@given(SIZES, st.lists(st.integers(0, 14), max_size=5, unique=True), st.integers(1, 3000))
def test_an_excerpt_is_in_order_within_its_limit_and_has_the_best_chunk(
    sizes: list[int], best: list[int], max_tokens: int
) -> None:
    places = choose_places(sizes, best, max_tokens)
    assert places == sorted(set(places))
    assert places
    assert set(places) <= set(range(len(sizes)))
    assert sum(sizes[place] for place in places) <= max_tokens or len(places) == 1
    if sum(sizes) <= max_tokens:
        assert places == list(range(len(sizes)))
    else:
        assert next((place for place in best if place < len(sizes)), 0) in places


@given(SIZES, st.lists(st.integers(0, 14), max_size=5, unique=True), st.integers(1, 3000))
def test_no_chunk_that_would_fit_is_left_out_of_an_excerpt(sizes: list[int], best: list[int], max_tokens: int) -> None:
    places = choose_places(sizes, best, max_tokens)
    room = max_tokens - sum(sizes[place] for place in places)
    assert all(sizes[place] > room for place in range(len(sizes)) if place not in places)


def spell(text: str) -> list[int]:
    return [ord(character) for character in text]


COLLECTIONS = st.lists(st.tuples(st.uuids().map(str), st.integers(1, 600)), max_size=10).map(
    lambda documents: [(source, list(range(length))) for source, length in documents]
)


@given(COLLECTIONS, st.integers(1, 500))
def test_every_filler_has_the_same_length(documents: Sequence[tuple[str, list[int]]], num_tokens: int) -> None:
    pool = make_pool(documents, num_tokens, spell)
    assert {len(filler.token_ids) for filler in pool} == {num_tokens}
    own = [filler for filler in pool if not filler.source.startswith("neutral-")]
    assert len(own) == min(POOL_SIZE, sum(len(ids) >= num_tokens for _, ids in documents))
    assert len(pool) - len(own) == len(NEUTRAL_TEXTS)
    assert pool_from_bytes(pool_to_bytes(pool)) == pool


@given(COLLECTIONS, st.integers(0, 6), st.integers(1, 3), st.data())
def test_contexts_are_never_the_documents_own_text(
    documents: Sequence[tuple[str, list[int]]], count: int, num_fillers: int, data: st.DataObject
) -> None:
    pool = make_pool(documents, 100, spell)
    content_hash = data.draw(st.sampled_from([*(source for source, _ in documents), "another"]))
    chosen = choose_contexts(content_hash, pool, count, num_fillers)
    assert [len(context) for context in chosen] == [num_fillers] * count
    assert content_hash not in {filler.source for context in chosen for filler in context}
    assert all(len(set(context)) == num_fillers for context in chosen), "no filler stands behind itself"
    assert chosen == choose_contexts(content_hash, pool, count, num_fillers)
    others = {filler.source for filler in pool} - {content_hash}
    assert len(set(chosen)) == min(count, len(others)), "no context comes twice while there are others"


def sources(contexts: Sequence[Sequence[Filler]]) -> list[list[str]]:
    return [[filler.source for filler in context] for context in contexts]


def test_the_collection_comes_before_neutral_text() -> None:
    pool = make_pool([("a", range(50)), ("b", range(50))], 50, spell)
    assert sorted(sources(choose_contexts("c", pool, 2, 2))) == [["a", "b"], ["b", "neutral-0"]]
    assert sources(choose_contexts("a", pool, 1, 2)) == [["b", "neutral-0"]]
    assert sources(choose_contexts("a", pool, 2, 1))[1][0].startswith("neutral-")


def test_documents_differ_in_their_contexts_but_share_them() -> None:
    pool = [Filler(str(index), (index,)) for index in range(POOL_SIZE)]
    chosen = [choose_contexts(f"document {index}", pool, 2, 2) for index in range(40)]
    assert len(set(chosen)) > 10
    assert len({context for contexts in chosen for context in contexts}) == POOL_SIZE


def test_phases_sum_to_the_whole_time_and_the_device_is_waited_for() -> None:
    waits: list[float] = []
    before = time.perf_counter()
    clock = PhaseClock(lambda: waits.append(time.perf_counter()))
    made = time.perf_counter()
    clock.lap("one")
    time.sleep(0.01)
    clock.lap("two")
    clock.lap("one")
    lapped = time.perf_counter()
    assert list(clock.phases) == ["one", "two"]
    assert waits[-1] - made <= sum(clock.phases.values()) <= lapped - before
    assert clock.phases["two"] >= 0.01
    assert len(waits) == 3


def test_a_recipe_survives_the_store_and_changes_with_any_setting() -> None:
    recipe = make_recipe(None, None, 64)
    assert recipe == Recipe(bits=8, group=32, contexts=2, exact=True)
    bare = make_recipe(None, None, 64, exact=False)
    for one in (recipe, bare):
        facts = json.loads(json.dumps(one.facts))
        assert recipe_from_facts(facts) == one
        assert recipe_from_facts(facts).digest == one.digest
    others = [make_recipe(4, None, 64), make_recipe(None, 0, 64), make_recipe(None, None, 16), recipe.unquantized, bare]
    assert len({recipe.digest, *(other.digest for other in others)}) == 6


@pytest.mark.parametrize(("head_dim", "group"), [(64, 32), (96, 32), (80, 16), (72, 8)])
def test_the_largest_group_that_divides_the_head_is_taken(head_dim: int, group: int) -> None:
    assert make_recipe(8, 2, head_dim).group == group


def test_a_head_size_that_no_group_divides_is_refused() -> None:
    with pytest.raises(SettingRefused, match=r"head size: 20$"):
        make_recipe(8, 2, 20)
