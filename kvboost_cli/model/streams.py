"""Stored layers on their way into a prompt's cache, while the pass that reads them already runs.

One thread takes the layers in order: stored bytes into a pinned buffer, an asynchronous copy of it to the device, and
expanding into the cache, the last two on a stream of their own. An event per layer tells when its part of the cache is
filled; the pass waits for a layer's event just before that layer's attention. So layer i + 1 is read and copied while
layer i computes. On a CPU, which has no streams, the same code is a thread that reads ahead: there torch's stand-ins
for streams and events do nothing, because nothing is asynchronous.

Knows nothing of stores: where bytes come from and how they are expanded is given.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..kv.placing import PlaceLayer
from .cache import ScatterCache

NUM_BUFFERS = 3
"""Pinned buffers in rotation: one is being filled, one copied from, and one is ready."""

ReadLayer = Callable[[int, Tensor], None]
"""Copies a layer's stored bytes into a buffer on the host, uint8 [bytes]; may raise, and then the pass does."""


class LayerStream:
    """The layers of one prompt under way; ``wait`` and ``finish`` are for the thread that runs the pass."""

    def __init__(self, kv: ScatterCache, num_bytes: int, read: ReadLayer, place: PlaceLayer) -> None:
        self._kv, self._read, self._place = kv, read, place
        device = kv.buffers[0].keys.device
        self._runtime: Any = torch.cuda if device.type == "cuda" else torch.cpu
        self._host = [_host_buffer(num_bytes, device) for _ in range(NUM_BUFFERS)]
        self._copied = [self._runtime.Event() for _ in self._host]
        self._staged = None if device.type == "cpu" else torch.empty(num_bytes, dtype=torch.uint8, device=device)
        self._placed = [self._runtime.Event() for _ in kv.buffers]
        self._stream = self._runtime.Stream()
        self._stream.wait_stream(self._runtime.current_stream())  # what used the cache's memory before has ended
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="kvboost-layers")
        self._loads: list[Future[None]] = [self._pool.submit(self._load, layer) for layer in range(len(kv.buffers))]

    def wait(self, layer: int) -> None:
        """What the calling thread asks of the device from now on comes after the layer is filled.

        Returns when the layer's bytes are read; on a GPU its copy may still be under way. Raises what reading raised.
        """
        self._loads[layer].result()
        self._placed[layer].wait()

    def finish(self) -> None:
        """Wait for every layer: then no stored byte is needed any more."""
        for layer in range(len(self._loads)):
            self.wait(layer)

    def close(self) -> None:
        """Drop the layers that are not begun, and return when nothing touches buffers or cache any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        ended = self._runtime.Event()
        ended.record(self._stream)
        ended.synchronize()

    def _load(self, layer: int) -> None:
        number = layer % NUM_BUFFERS
        host, copied = self._host[number], self._copied[number]
        copied.synchronize()  # the copy out of this buffer, three layers ago
        self._read(layer, host)
        buffers = self._kv.buffers[layer]
        with self._runtime.stream(self._stream), torch.inference_mode():
            staged = host if self._staged is None else self._staged.copy_(host, non_blocking=True)
            copied.record(self._stream)
            self._place(staged, buffers.keys[0], buffers.values[0])
            self._placed[layer].record(self._stream)


@contextmanager
def streaming(kv: ScatterCache, num_bytes: int, read: ReadLayer, place: PlaceLayer) -> Iterator[LayerStream]:
    """Load all layers, ``num_bytes`` each, behind what runs within: it waits where it first touches a layer.

    ``read`` is called in another thread, and not any more afterwards. What it raises, the first touch of that layer
    raises, or else the end of the block.
    """
    stream = LayerStream(kv, num_bytes, read, place)
    kv.expect(stream.wait)
    try:
        yield stream
        stream.finish()
    finally:
        kv.expect(None)
        stream.close()


def _host_buffer(num_bytes: int, device: torch.device) -> Tensor:
    return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=device.type == "cuda")
