"""Counts the events of an index run."""

from dataclasses import dataclass, field

from store import Evicted

from ..documents import Skipped
from .cost import Cost
from .indexing import IndexEvent, InOtherShard, Planned, Removed
from .outlook import Outlook
from .writer import Encoded, Indexed


@dataclass
class IndexTally:
    """Sums over index events; ``seconds`` is set by the caller, whose clock it is, and the ``outlook`` of a dry run."""

    changes: dict[str, int] = field(default_factory=lambda: {"added": 0, "updated": 0, "unchanged": 0, "removed": 0})
    skipped: list[Skipped] = field(default_factory=list)
    num_elsewhere: int = 0
    num_planned: int = 0
    num_done: int = 0
    bytes_planned: int = 0
    bytes_done: int = 0
    num_new_chunks: int = 0
    num_reused_chunks: int = 0
    num_missing_tokens: int = 0
    tokens_encoded: int = 0
    tokens_exact: int = 0
    bytes_written: int = 0
    cost: Cost = field(default_factory=Cost)
    num_evicted: int = 0
    evicted_bytes: int = 0
    seconds: float = 0.0
    outlook: Outlook | None = None

    def add(self, event: IndexEvent) -> None:
        """Count one event."""
        if isinstance(event, Planned):
            self.num_planned += event.num_documents
            self.bytes_planned += event.num_bytes
        elif isinstance(event, Skipped):
            self.skipped.append(event)
            if self.num_planned:  # after the plan: a planned document that could not be read
                self.num_done += 1
        elif isinstance(event, InOtherShard):
            self.num_elsewhere += 1
        elif isinstance(event, Removed):
            self.changes["removed"] += 1
        elif isinstance(event, Encoded):
            self.tokens_encoded += event.num_tokens
            self.tokens_exact += event.num_exact_tokens
        else:
            self._add_indexed(event)

    def _add_indexed(self, event: Indexed) -> None:
        self.changes[event.change] += 1
        self.num_new_chunks += event.num_new_chunks
        self.num_reused_chunks += event.num_reused_chunks
        self.num_missing_tokens += event.num_missing_tokens
        self.bytes_written += event.bytes_written
        self.cost = self.cost.plus(event.cost)
        if event.was_read:
            self.num_done += 1
            self.bytes_done += event.size_bytes

    def count_evicted(self, before: Evicted, now: Evicted) -> None:
        """What gave way between two moments."""
        self.num_evicted = now.num_records - before.num_records
        self.evicted_bytes = now.num_bytes - before.num_bytes

    @property
    def num_documents(self) -> int:
        """Documents that are in the store now."""
        return sum(self.changes[change] for change in ("added", "updated", "unchanged"))

    @property
    def num_failed(self) -> int:
        """Documents that the user would count as errors."""
        return sum(skip.failed for skip in self.skipped)

    def to_json(self) -> dict[str, object]:
        """The object of ``index --json``."""
        skipped = [{"path": skip.path, "reason": skip.reason} for skip in self.skipped]
        return {
            "documents": {**self.changes, "skipped": skipped},
            "chunks": {"new": self.num_new_chunks, "reused": self.num_reused_chunks},
            "tokens_encoded": self.tokens_encoded,
            "tokens_exact": self.tokens_exact,
            "seconds": self.seconds,
            "tokens_per_s": self.tokens_encoded / self.seconds if self.seconds else 0.0,
            "bytes_written": self.bytes_written,
            "evicted": {"records": self.num_evicted, "bytes": self.evicted_bytes},
            "planned": None if self.outlook is None else self.outlook.to_json(),
        }
