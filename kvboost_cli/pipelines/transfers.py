"""Counts the events of an export and of an import."""

from dataclasses import dataclass, field

from ..documents import Skipped
from .exporting import Exported, Sealed
from .importing import Imported


def _told(skipped: list[Skipped]) -> list[dict[str, str]]:
    return [{"path": skip.path, "reason": skip.reason} for skip in skipped]


@dataclass
class ExportTally:
    """Sums over export events; ``seconds`` is set by the caller."""

    num_documents: int = 0
    num_exact: int = 0
    num_records: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    num_bytes: int = 0
    seconds: float = 0.0

    def add(self, event: Exported | Skipped | Sealed) -> None:
        """Count one event."""
        if isinstance(event, Skipped):
            self.skipped.append(event)
        elif isinstance(event, Sealed):
            self.num_bytes = event.num_bytes
        else:
            self.num_documents += 1
            self.num_exact += event.is_exact
            self.num_records += event.num_records

    @property
    def num_done(self) -> int:
        """Documents that were looked at."""
        return self.num_documents + len(self.skipped)

    def to_json(self, file: str) -> dict[str, object]:
        """The object of ``export --json``."""
        return {
            "file": file,
            "bytes": self.num_bytes,
            "documents": {"exported": self.num_documents, "exact": self.num_exact, "skipped": _told(self.skipped)},
            "records": self.num_records,
            "seconds": self.seconds,
        }


@dataclass
class ImportTally:
    """Sums over import events; ``seconds`` is set by the caller."""

    changes: dict[str, int] = field(default_factory=lambda: {"added": 0, "updated": 0, "unchanged": 0, "kept": 0})
    skipped: list[Skipped] = field(default_factory=list)
    num_new_records: int = 0
    num_reused_records: int = 0
    bytes_written: int = 0
    seconds: float = 0.0

    def add(self, event: Imported | Skipped) -> None:
        """Count one event."""
        if isinstance(event, Skipped):
            self.skipped.append(event)
            return
        self.changes[event.change] += 1
        self.num_new_records += event.num_new_records
        self.num_reused_records += event.num_reused_records
        self.bytes_written += event.bytes_written

    @property
    def num_done(self) -> int:
        """Documents that were looked at."""
        return sum(self.changes.values()) + len(self.skipped)

    def to_json(self, source: str) -> dict[str, object]:
        """The object of ``import --json``."""
        return {
            "source": source,
            "documents": {**self.changes, "skipped": _told(self.skipped)},
            "records": {"new": self.num_new_records, "reused": self.num_reused_records},
            "bytes_written": self.bytes_written,
            "seconds": self.seconds,
        }
