"""A stopwatch whose phases sum to its total, because every instant belongs to a phase."""

from collections.abc import Callable
from time import perf_counter


class PhaseClock:
    """Laps since construction; ``synchronize`` is called before each reading, so that a device's work is over."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._last = perf_counter()
        self.phases: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """Give the time since the last lap to ``phase``, in seconds; a phase may come more than once."""
        self._synchronize()
        now = perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self._last
        self._last = now
