"""From prepared documents to chunk records: the windows are run, averaged over contexts, quantized."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from store import ChunkRecord, build_record

from ..documents import MAX_TOKENS
from ..kv.layout import LayerShape, encode_layer
from ..model.encode import EncodeWindow, LayerKV, PrefixKV, encode_prefix, encode_windows
from ..model.fingerprint import ModelFingerprint
from ..model.load import LoadedModel
from .errors import SettingRefused
from .fillers import Filler, choose_fillers
from .prepare import PreparedDocument, preamble_key
from .recipe import Recipe
from .windows import plan_windows

GPU_BATCH_TOKENS = 16384
"""Tokens of one encoding batch on a GPU: prefixes, padding and contexts included; a CPU takes one window at a time."""


@dataclass(frozen=True)
class _Job:
    """One window to run, the prefixes before it, and the chunks (key, token ids) that it encodes."""

    window: EncodeWindow
    prefixes: tuple[PrefixKV, ...]
    chunks: tuple[tuple[bytes, tuple[int, ...]], ...]

    @property
    def num_tokens(self) -> int:
        return len(self.window.context_ids) + len(self.window.kept_ids)


class Encoder:
    """Encodes chunks of one model by one recipe; remembers the prefixes that documents share."""

    def __init__(
        self,
        model: LoadedModel,
        fingerprint: ModelFingerprint,
        recipe: Recipe,
        preamble: Sequence[int],
        separator: Sequence[int],
        pool: Sequence[Filler],
    ) -> None:
        self._model, self._fingerprint, self._recipe = model, fingerprint, recipe
        self._preamble, self._separator, self._pool = tuple(preamble), tuple(separator), pool
        self._prefixes: dict[str, PrefixKV] = {}

    @property
    def batch_tokens(self) -> int:
        """Tokens of one batch, at most (but a window at least); also how many to gather before encoding."""
        return 0 if self._model.device.type == "cpu" else GPU_BATCH_TOKENS

    def preamble_record(self) -> ChunkRecord | None:
        """The exact KV of the store's own preamble, which prompts without ``--system`` begin with."""
        if not self._preamble:
            return None
        prefix = encode_prefix(self._model, self._preamble)
        key = preamble_key(self._fingerprint, self._preamble, rope_variant=0)
        return exact_record(key, self._model, self._fingerprint, self._recipe, self._preamble, prefix.layers)

    def encode(self, documents: Iterable[tuple[PreparedDocument, frozenset[bytes]]]) -> Iterator[list[ChunkRecord]]:
        """Records of the missing chunks of all documents, batch by batch."""
        jobs = [job for prepared, missing in documents for job in self._plan_jobs(prepared, missing)]
        for batch in self._batches(jobs):
            yield list(self._run(batch))

    def _plan_jobs(self, prepared: PreparedDocument, missing: frozenset[bytes]) -> Iterator[_Job]:
        chunks = prepared.chunks
        sizes = [len(chunk.token_ids) for chunk in chunks]
        first_places = {key: place for place, key in reversed(list(enumerate(prepared.keys)))}
        absent = [key in missing and first_places[key] == place for place, key in enumerate(prepared.keys)]
        prefixes = self._prefixes_of(prepared.document.content_hash)
        for plan in plan_windows(sizes, absent, self._window_tokens(prefixes), self._recipe.overlap_tokens):
            kept = [(prepared.keys[index], chunks[index].token_ids) for index in range(plan.first, plan.last)]
            yield _Job(
                EncodeWindow(
                    _tokens_before(prepared, plan.first, plan.num_context_tokens),
                    tuple(token for _key, ids in kept for token in ids),
                ),
                prefixes,
                tuple(kept),
            )

    def _window_tokens(self, prefixes: Sequence[PrefixKV]) -> int:
        """The recipe's window, or what the model's context leaves of it."""
        room = self._model.geometry.max_positions - prefixes[0].num_tokens - self._recipe.overlap_tokens
        if room < MAX_TOKENS:
            raise SettingRefused(f"the model's context is too short to encode in: {self._model.geometry.max_positions}")
        return min(self._recipe.window_tokens, room)

    def _prefixes_of(self, content_hash: str) -> tuple[PrefixKV, ...]:
        if self._recipe.contexts == 0:
            return (PrefixKV(0, ()),)
        fillers = choose_fillers(content_hash, self._pool, self._recipe.contexts)
        return tuple(self._prefix(filler) for filler in fillers)

    def _prefix(self, filler: Filler) -> PrefixKV:
        if filler.source not in self._prefixes:
            ids = (*self._preamble, *filler.token_ids, *self._separator)
            self._prefixes[filler.source] = encode_prefix(self._model, ids)
        return self._prefixes[filler.source]

    def _batches(self, jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
        batch: list[_Job] = []
        for job in jobs:
            if batch and _batch_tokens([*batch, job]) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(job)
        if batch:
            yield batch

    def _run(self, batch: Sequence[_Job]) -> Iterator[ChunkRecord]:
        windows, prefixes = [job.window for job in batch], [job.prefixes for job in batch]
        layers: list[list[list[bytes]]] = [[[] for _ in job.chunks] for job in batch]
        for layer in encode_windows(self._model, windows, prefixes):
            for job, kv, chunk_layers in zip(batch, layer, layers, strict=True):
                for data, chunk_layer in zip(self._cut_layer(job, kv), chunk_layers, strict=True):
                    chunk_layer.append(data)
        for job, chunk_layers in zip(batch, layers, strict=True):
            for (key, token_ids), chunk_layer in zip(job.chunks, chunk_layers, strict=True):
                shape = layer_shape(self._model, self._recipe, len(token_ids))
                yield _make_record(key, self._fingerprint, self._recipe, shape, token_ids, chunk_layer, rotated=False)

    def _cut_layer(self, job: _Job, kv: LayerKV) -> Iterator[bytes]:
        """The bytes of one layer of each of a window's chunks."""
        keys, values = kv
        first = 0
        for _key, token_ids in job.chunks:
            part = slice(first, first + len(token_ids))
            yield encode_layer(keys[:, part], values[:, part], layer_shape(self._model, self._recipe, len(token_ids)))
            first += len(token_ids)


def _batch_tokens(jobs: Sequence[_Job]) -> int:
    """What a batch's cache holds: every row is as long as the longest."""
    length = max(job.num_tokens for job in jobs) + jobs[0].prefixes[0].num_tokens
    return length * sum(len(job.prefixes) for job in jobs)


def exact_record(
    key: bytes,
    model: LoadedModel,
    fingerprint: ModelFingerprint,
    recipe: Recipe,
    token_ids: Sequence[int],
    layers: Iterable[tuple[Tensor, Tensor]],
) -> ChunkRecord:
    """A positional record of a prompt's first tokens: per layer keys, rotated, and values, unquantized."""
    shape = layer_shape(model, recipe.unquantized, len(token_ids))
    encoded = [encode_layer(keys, values, shape) for keys, values in layers]
    return _make_record(key, fingerprint, recipe, shape, token_ids, encoded, rotated=True)


def _make_record(
    key: bytes,
    fingerprint: ModelFingerprint,
    recipe: Recipe,
    shape: LayerShape,
    token_ids: Sequence[int],
    layers: Sequence[bytes],
    *,
    rotated: bool,
) -> ChunkRecord:
    return build_record(
        key,
        layers,
        fingerprint=fingerprint.digest,
        recipe=recipe.digest,
        dtype=fingerprint.dtype,
        bits=shape.bits,
        group=shape.group,
        kv_heads=shape.kv_heads,
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        token_ids=token_ids,
        rotated=rotated,
    )


def layer_shape(model: LoadedModel, recipe: Recipe, num_tokens: int) -> LayerShape:
    """The layout of one layer of a chunk of ``num_tokens``."""
    geometry = model.geometry
    return LayerShape(
        kv_heads=geometry.kv_heads,
        num_tokens=num_tokens,
        key_dim=geometry.key_dim,
        value_dim=geometry.value_dim,
        bits=recipe.bits,
        group=recipe.group,
        dtype=model.dtype,
    )


def _tokens_before(prepared: PreparedDocument, chunk: int, count: int) -> tuple[int, ...]:
    """The last ``count`` token ids before a chunk."""
    ids: list[int] = []
    index = chunk
    while len(ids) < count:
        index -= 1
        ids[:0] = prepared.chunks[index].token_ids
    return tuple(ids[len(ids) - count :])
