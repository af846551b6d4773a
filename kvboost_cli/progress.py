"""How far long work is, as one line of facts. ``console`` shows it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

State = TypeVar("State")
Describe = Callable[[State, float], str]
"""From a state of the work and the seconds since it began to one line of facts."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far indexing is; ``tokens`` were encoded so far, bytes are those of files."""

    documents_done: int
    documents_total: int
    bytes_done: int
    bytes_total: int
    chunks: int
    tokens: int


def describe_progress(progress: IndexProgress, elapsed_s: float) -> str:
    """One line of facts.

    >>> describe_progress(IndexProgress(3, 12, 1000, 4000, 40, 9000), 10.0)
    '3/12 documents, 40 chunks, 900 tokens/s, 0:30 left'
    """
    facts = [f"{progress.documents_done}/{progress.documents_total} documents", f"{progress.chunks} chunks"]
    if progress.tokens and elapsed_s > 0:
        facts.append(f"{progress.tokens / elapsed_s:,.0f} tokens/s")
    return ", ".join([*facts, *_time_left(progress.bytes_done, progress.bytes_total, elapsed_s)])


@dataclass(frozen=True, slots=True)
class StepProgress:
    """How far work is that goes in steps of about the same length; ``unit`` names them, such as ``prompts``."""

    done: int
    total: int
    unit: str


def describe_steps(progress: StepProgress, elapsed_s: float) -> str:
    """One line of facts.

    >>> describe_steps(StepProgress(3, 12, "prompts"), 10.0)
    '3/12 prompts, 0:30 left'
    """
    fact = f"{progress.done}/{progress.total} {progress.unit}"
    return ", ".join([fact, *_time_left(progress.done, progress.total, elapsed_s)])


def _time_left(done: int, total: int, elapsed_s: float) -> list[str]:
    if not 0 < done < total:
        return []
    minutes, seconds = divmod(round(elapsed_s / done * (total - done)), 60)
    return [f"{minutes}:{seconds:02d} left"]
