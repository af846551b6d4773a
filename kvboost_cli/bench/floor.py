"""The floor of a prompt's time to first token: what no way of reusing its stored KV can do without.

Its records are copied once, its tail goes through the model once, over a cache in which everything is in place, and so
do the tokens before it that have to be computed. Each part is measured alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from ..model.forward import forward_tokens, write_kv
from ..model.load import LoadedModel
from ..pipelines.asking import Stitched
from ..pipelines.plan import Hit

COPY_BYTES = 1 << 26
"""More than a processor's caches hold, and about what the records of 5,000 tokens of the default model have."""

COPIES = 5
PASSES = 2
"""A part of the floor is the fastest of so many passes: the first one may hold what happens once."""


@dataclass(frozen=True)
class Floor:
    """The parts of the floor: bytes, bytes per second, rows of tokens, and seconds.

    ``repair_tokens`` are the tokens before the tail that are computed: repaired ones, and those that have no KV.

    ``together_s`` is one pass of both, which reads the weights once: where little is computed it takes less than two.

    >>> Floor(50_000_000, 10e9, 30, 0.04, 100, 0.06, 0.08).total_s
    0.105
    """

    load_bytes: int
    copy_bytes_per_s: float
    tail_tokens: int
    tail_s: float
    repair_tokens: int
    repair_s: float
    together_s: float

    @property
    def load_s(self) -> float:
        """Copying the records at the measured rate."""
        return self.load_bytes / self.copy_bytes_per_s

    @property
    def total_s(self) -> float:
        """The floor: one part after the other."""
        return self.load_s + self.tail_s + self.repair_s


def measure_copy_rate(model: LoadedModel, num_bytes: int = COPY_BYTES) -> float:
    """Bytes per second from the host's memory to the model's device, which may be the host; a median."""
    source = torch.ones(num_bytes, dtype=torch.uint8, pin_memory=model.device.type == "cuda")
    target = torch.zeros(num_bytes, dtype=torch.uint8, device=model.device)
    return num_bytes / median(time_once(model, lambda: target.copy_(source)) for _ in range(COPIES))


def measure_floor(model: LoadedModel, stitched: Stitched, copy_bytes_per_s: float) -> Floor:
    """The floor of a prompt that was stitched, over its cache, in which the same KV is written again.

    Which tokens were repaired is not known any more: as many are taken, spread evenly over the content hits. A pass
    takes as long for these.
    """
    plan, kv, ids = stitched.plan, stitched.kv, stitched.prompt.token_ids
    repaired = spread_evenly(plan.positions_with(Hit.CONTENT), stitched.num_repaired)
    rows = sorted([*plan.fresh_positions(), *repaired])
    tail = list(plan.tail)

    def with_logits(places: Sequence[int]) -> float:
        picked = _pick(model, ids, places)
        return min(time_once(model, lambda: forward_tokens(model, picked, places, kv)) for _ in range(PASSES))

    def without_logits(places: Sequence[int]) -> float:
        picked = _pick(model, ids, places)
        return min(time_once(model, lambda: write_kv(model, picked, places, kv)) for _ in range(PASSES))

    return Floor(
        load_bytes=_stored_bytes(stitched),
        copy_bytes_per_s=copy_bytes_per_s,
        tail_tokens=len(tail),
        tail_s=with_logits(tail),
        repair_tokens=len(rows),
        repair_s=without_logits(rows) if rows else 0.0,
        together_s=with_logits([*rows, *tail]),
    )


def spread_evenly(places: Sequence[int], count: int) -> list[int]:
    """``count`` of the places, at equal distances.

    >>> spread_evenly(range(10, 20), 4)
    [10, 12, 15, 17]
    """
    return [places[index * len(places) // count] for index in range(count)]


def time_once(model: LoadedModel, run: Callable[[], object]) -> float:
    """Seconds of one run; the device is idle before and after."""
    model.synchronize()
    started = perf_counter()
    run()
    model.synchronize()
    return perf_counter() - started


def _pick(model: LoadedModel, ids: Sequence[int], places: Sequence[int]) -> Tensor:
    """Token ids at places: int64 [1, places]."""
    return torch.tensor([[ids[place] for place in places]], device=model.device)


def _stored_bytes(stitched: Stitched) -> int:
    """Bytes of the layers of all records that the prompt was made of."""
    headers = [record.header for record in stitched.found.chunks if record is not None]
    if stitched.found.preamble is not None:
        headers.append(stitched.found.preamble)
    return sum(sum(header.layer_bytes) for header in headers)
