"""What ``bench eviction`` measured, replay by replay, and the figures of each policy at each budget."""

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from statistics import median

from .intervals import Interval, interval
from .replay import POLICIES, Replay

SEED = 1
BASE = "LRU"


@dataclass(frozen=True)
class EvictionRequest:
    """Traces and budgets: ``repeats`` seeds from ``seed`` on; ``budgets`` are shares of all records' bytes."""

    num_documents: int
    num_questions: int
    skew: float
    budgets: tuple[float, ...]
    repeats: int
    seed: int
    tokens_per_s: float

    @property
    def seeds(self) -> range:
        """A trace for each."""
        return range(self.seed, self.seed + self.repeats)


@dataclass(frozen=True)
class PolicySummary:
    """Means over the traces, with intervals; ``gain`` is the time saved less what LRU saves on the same trace.

    ``largest_share`` is the most that any store took on disk, as a share of its budget.
    """

    policy: str
    budget_share: float
    hit_rate: Interval
    saved_share: Interval
    saved_s: Interval
    gain_s: Interval
    num_evicted: float
    largest_share: float


@dataclass(frozen=True)
class EvictionRun:
    """A whole run; not ``complete`` if it was interrupted: then traces that were not replayed to the end are out."""

    request: EvictionRequest
    replays: tuple[Replay, ...]
    seconds: float
    complete: bool

    @property
    def summaries(self) -> tuple[PolicySummary, ...]:
        """Budget by budget, policy by policy."""
        return tuple(
            summary
            for share in self.request.budgets
            for policy in POLICIES
            if (summary := self._summary(share, policy)) is not None
        )

    def _summary(self, share: float, policy: str) -> PolicySummary | None:
        found = self._replays(share, policy)
        if not found:
            return None
        saved_s = [self._saved_s(one) for one in found]
        base_s = [self._saved_s(one) for one in self._replays(share, BASE)]
        gains_s = [mine - other for mine, other in zip(saved_s, base_s, strict=True)]
        return PolicySummary(
            policy, share, interval([one.hit_rate for one in found], SEED),
            interval([one.saved_share for one in found], SEED), interval(saved_s, SEED), interval(gains_s, SEED),
            median(one.num_evicted for one in found), max(one.largest_bytes / one.budget_bytes for one in found),
        )  # fmt: skip

    def _replays(self, share: float, policy: str) -> Sequence[Replay]:
        """In the order of their seeds, of seeds that all policies have."""
        at_share = [one for one in self.replays if one.budget_share == share]
        whole = {one.seed for one in at_share if sum(other.seed == one.seed for other in at_share) == len(POLICIES)}
        return [one for one in at_share if one.policy == policy and one.seed in whole]

    def _saved_s(self, one: Replay) -> float:
        return one.tokens_hit / self.request.tokens_per_s

    def to_json(self) -> dict[str, object]:
        """The object of ``bench eviction --json``."""
        return {
            **asdict(self.request),
            "policies": [_summary_json(summary) for summary in self.summaries],
            "replays": [asdict(one) for one in self.replays],
            "seconds": self.seconds,
            "complete": self.complete,
        }


def _summary_json(summary: PolicySummary) -> dict[str, object]:
    intervals = {name: astuple(value) for name, value in vars(summary).items() if isinstance(value, Interval)}
    return {**vars(summary), **intervals}
