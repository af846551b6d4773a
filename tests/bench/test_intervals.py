"""Bootstrap intervals against cases whose answer is known."""

import math

import numpy as np
import pytest

from kvboost_cli.bench.intervals import Interval, interval, medians, ratio_interval


def test_equal_values_leave_nothing_open() -> None:
    assert interval([0.5] * 8, seed=1) == Interval(0.5, 0.5, 0.5)


def test_of_two_values_a_quarter_of_the_draws_has_either_one_alone() -> None:
    assert interval([0.0, 1.0], seed=1) == Interval(0.5, 0.0, 1.0)


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(5).normal(10.0, 2.0, 400)
    found = interval(list(values), seed=1)
    reach = 1.96 * float(values.std()) / math.sqrt(400)
    assert found.value == pytest.approx(float(values.mean()))
    # 2,000 draws know a 2.5 % percentile to a few hundredths of the interval's reach
    assert found.low == pytest.approx(found.value - reach, abs=0.1 * reach)
    assert found.high == pytest.approx(found.value + reach, abs=0.1 * reach)


def test_a_ratio_is_paired_by_prompt() -> None:
    bases = [1.0, 2.0, 8.0, 30.0]
    assert ratio_interval([base / 2 for base in bases], bases, seed=1) == Interval(0.5, 0.5, 0.5)


def test_a_ratio_of_means_is_no_mean_of_ratios() -> None:
    found = ratio_interval([1.0, 0.0], [1.0, 3.0], seed=1)
    assert found is not None
    assert found.value == 0.25


def test_a_ratio_to_nothing_is_none() -> None:
    assert ratio_interval([1.0, 2.0], [0.0, 0.0], seed=1) is None


def test_draws_without_a_base_are_left_out() -> None:
    found = ratio_interval([1.0, 1.0], [0.0, 1.0], seed=1)
    assert found is not None
    assert (found.low, found.high) == (1.0, 2.0)


def test_a_median_does_not_see_one_outlier() -> None:
    assert interval([1.0, 1.0, 1.0, 1.0, 90.0], seed=1, statistic=medians).value == 1.0


def test_a_seed_gives_the_same_interval() -> None:
    values = list(np.random.default_rng(2).random(16))
    assert interval(values, seed=3) == interval(values, seed=3) != interval(values, seed=4)
