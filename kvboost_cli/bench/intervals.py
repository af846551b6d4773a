"""Bootstrap intervals: how far a mean over these prompts may be from that over others like them.

Percentile bootstrap (Efron): the prompts are drawn with replacement ``RESAMPLES`` times; the interval holds the middle
95 % of the statistic. One seed gives all statistics the same draws, so that what is compared stays paired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From [..., prompts] to [...]."""


@dataclass(frozen=True)
class Interval:
    """A statistic of a sample and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def means(values: Floats) -> Floats:
    """Mean over prompts: [..., prompts] to [...]."""
    return np.asarray(values.mean(axis=-1))


def medians(values: Floats) -> Floats:
    """Median over prompts: [..., prompts] to [...]."""
    return np.asarray(np.median(values, axis=-1))


def interval(values: Sequence[float], seed: int, statistic: Statistic = means) -> Interval:
    """The statistic of one value per prompt."""
    sample = np.asarray(values, dtype=np.float64)
    return _interval(float(statistic(sample)), statistic(sample[_draws(len(sample), seed)]))


def ratio_interval(
    values: Sequence[float], bases: Sequence[float], seed: int, statistic: Statistic = means
) -> Interval | None:
    """The statistic of ``values`` over that of ``bases``, drawn by prompt in pairs; None if the latter is 0.

    Draws in which it is 0 are left out.
    """
    above, below = np.asarray(values, dtype=np.float64), np.asarray(bases, dtype=np.float64)
    base = float(statistic(below))
    if base == 0:
        return None
    draws = _draws(len(above), seed)
    tops, bottoms = statistic(above[draws]), statistic(below[draws])
    return _interval(float(statistic(above)) / base, tops[bottoms > 0] / bottoms[bottoms > 0])


def _draws(num_prompts: int, seed: int) -> NDArray[np.int64]:
    """Prompts by number: int64 [RESAMPLES, prompts]."""
    return np.random.default_rng(seed).integers(0, num_prompts, (RESAMPLES, num_prompts))


def _interval(value: float, resampled: Floats) -> Interval:
    low, high = np.percentile(resampled, PERCENTILES)
    return Interval(value, float(low), float(high))
