"""The repair strategies by the names that ``--repair`` takes and reports show."""

from .repairs import cacheblend, question, selective
from .repairs.task import RepairStrategy

REPAIRS: dict[str, RepairStrategy] = {
    "none": selective.none,
    "selective": selective.selective,
    "cacheblend": cacheblend.cacheblend,
    "question": question.question,
}

AUTO = "question"
"""What ``--repair auto`` stands for: the best by measurement, see docs/fidelity.md."""


def effective_name(name: str) -> str:
    """The strategy behind a name: ``effective_name("auto") == "question"``."""
    return AUTO if name == "auto" else name


def default_ratio(name: str) -> float | None:
    """The share that a strategy recomputes without ``--ratio``; None if it does not go by a share."""
    return cacheblend.DEFAULT_RATIO if name == "cacheblend" else None
