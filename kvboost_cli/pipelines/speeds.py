"""How fast this machine was at work on a store: measured by past runs, kept in the store, used for estimates only.

A store that has moved to another machine knows nothing of that one until work was done on it.
"""

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from store import ChunkStore

META_NAME = "speeds"
NUM_KEPT = 32
NUM_USED = 8
"""The latest runs of a kind; older ones tell of another version or load."""

INDEXING, PREFILL = "index", "prefill"


@dataclass(frozen=True)
class SpeedSample:
    """One run: ``tokens`` in ``seconds``, after ``startup_s`` of imports and loading.

    Of indexing, a token counts once for each context and once more for its exact KV (see ``index_work``); a sample of
    prefill is one prompt.
    """

    kind: str
    device: str
    tokens: int
    seconds: float
    startup_s: float
    machine: str
    at: float


def make_sample(kind: str, device: str, tokens: int, seconds: float, startup_s: float = 0.0) -> SpeedSample:
    """A sample of this machine, now."""
    return SpeedSample(kind, device, tokens, seconds, startup_s, platform.node(), time.time())


def index_work(content_tokens: int, exact_tokens: int, contexts: int) -> int:
    """Tokens that go through the model to index these; encoded alone, a token goes through once."""
    return content_tokens * max(1, contexts) + exact_tokens


def read_speeds(store: ChunkStore) -> tuple[SpeedSample, ...]:
    """What this machine has measured on the store, oldest first."""
    return tuple(sample for sample in _read_all(store) if sample.machine == platform.node())


def record_speed(store: ChunkStore, sample: SpeedSample) -> None:
    """Keep a sample beside the latest others; one that tells nothing is dropped."""
    if sample.tokens > 0 and sample.seconds > 0:
        kept = [*_read_all(store), sample][-NUM_KEPT:]
        store.put_meta(META_NAME, json.dumps([asdict(one) for one in kept]).encode())


def estimate_index_s(samples: Sequence[SpeedSample], work: int) -> float | None:
    """Seconds that indexing would take, as in the latest runs on the device used last; None if there was none."""
    runs = _latest(samples, INDEXING)
    if not work:
        return 0.0
    if not runs:
        return None
    rate = sum(run.tokens for run in runs) / sum(run.seconds for run in runs)
    return runs[-1].startup_s + work / rate


def estimate_prefill_s(samples: Sequence[SpeedSample], tokens: int) -> float | None:
    """Seconds of full prefill, by the measured prompt of the nearest length, in proportion.

    None without one of half to twice the length: prefill is not proportional over more than that.
    """
    fitting = [run for run in _latest(samples, PREFILL) if tokens / 2 <= run.tokens <= tokens * 2]
    if not fitting:
        return None
    nearest = min(fitting, key=lambda run: abs(run.tokens - tokens))
    return nearest.seconds * tokens / nearest.tokens


def _latest(samples: Sequence[SpeedSample], kind: str) -> list[SpeedSample]:
    of_kind = [sample for sample in samples if sample.kind == kind]
    return [sample for sample in of_kind if sample.device == of_kind[-1].device][-NUM_USED:]


def _read_all(store: ChunkStore) -> list[SpeedSample]:
    """Samples of all machines; what cannot be read only costs an estimate."""
    with store.snapshot() as snapshot:
        data = snapshot.meta(META_NAME)
    try:
        entries: list[dict[str, Any]] = json.loads(data) if data else []
        return [SpeedSample(**entry) for entry in entries]
    except (ValueError, TypeError):
        return []
