"""The floor: its arithmetic, and its parts over a real prompt."""

from itertools import pairwise

import pytest

from kvboost_cli.bench.floor import Floor, spread_evenly


def test_the_floor_is_the_sum_of_its_parts() -> None:
    floor = Floor(
        load_bytes=52_000_000,
        copy_bytes_per_s=10.4e9,
        tail_tokens=30,
        tail_s=0.05,
        repair_tokens=100,
        repair_s=0.07,
        together_s=0.09,
    )
    assert floor.load_s == pytest.approx(0.005)
    assert floor.total_s == pytest.approx(0.125)


def test_a_prompt_of_which_nothing_is_stored_has_its_passes_as_floor() -> None:
    assert Floor(0, 1e9, 8, 0.25, 0, 0.0, 0.25).total_s == 0.25


@pytest.mark.parametrize(("total", "count"), [(10, 0), (10, 1), (10, 4), (10, 10), (1000, 128)])
def test_as_many_tokens_are_spread_over_all_there_are(total: int, count: int) -> None:
    chosen = spread_evenly(range(5, 5 + total), count)
    assert len(set(chosen)) == count
    assert chosen == sorted(chosen)
    if count:
        steps = {later - earlier for earlier, later in pairwise(chosen)}
        assert max(steps, default=1) - min(steps, default=1) <= 1
        assert chosen[0] == 5
