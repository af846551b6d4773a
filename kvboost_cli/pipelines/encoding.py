"""From prepared documents to chunk records: the windows are run, averaged over contexts, quantized."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from store import ChunkRecord

from ..documents import MAX_TOKENS
from ..kv.layout import encode_layer
from ..model.encode import EncodeWindow, LayerKV, PrefixKV, encode_prefix, encode_runs, encode_windows
from ..model.fingerprint import ModelFingerprint
from ..model.load import LoadedModel
from .errors import SettingRefused
from .fillers import Filler, choose_contexts
from .prepare import ChainLink, PreparedDocument, preamble_key
from .recipe import Recipe
from .records import content_record, layer_shape, positional_record
from .windows import WindowPlan, plan_windows

ROOMY_POSITIONS = 2048
"""A model with a shorter context than this has room for one filler before a window."""

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
        self._prefixes: dict[tuple[str, ...], PrefixKV] = {}

    @property
    def batch_tokens(self) -> int:
        """Tokens of one batch, at most (but a window at least); also how many to gather before encoding."""
        return 0 if self._model.device.type == "cpu" else GPU_BATCH_TOKENS

    def preamble_record(self) -> ChunkRecord | None:
        """The exact KV of the store's own preamble, which prompts without ``--system`` begin with."""
        if not self._preamble:
            return None
        key, layers = preamble_key(self._fingerprint, self._preamble, rope_variant=0), self._preamble_kv.layers
        return positional_record(
            key, self._model, self._fingerprint, self._recipe, self._preamble, layers, rotated=True
        )

    def encode_chain(self, links: Sequence[ChainLink], missing: frozenset[bytes]) -> Iterator[list[ChunkRecord]]:
        """Exact records of the missing links of a document's chain, pass by pass; all links are run."""
        for passed in encode_runs(self._model, self._preamble_kv, [link.token_ids for link in links]):
            yield [
                self._link_record(links[number], layers) for number, layers in passed if links[number].key in missing
            ]

    def _link_record(self, link: ChainLink, layers: Iterable[LayerKV]) -> ChunkRecord:
        return positional_record(
            link.key, self._model, self._fingerprint, self._recipe, link.token_ids, layers, rotated=False
        )

    @cached_property
    def _preamble_kv(self) -> PrefixKV:
        return encode_prefix(self._model, self._preamble)

    def encode(self, documents: Iterable[tuple[PreparedDocument, frozenset[bytes]]]) -> Iterator[list[ChunkRecord]]:
        """Records of the missing chunks of all documents, batch by batch."""
        jobs = [job for prepared, missing in documents for job in self._plan_jobs(prepared, missing)]
        for batch in self._batches(jobs):
            yield list(self._run(batch))

    def _plan_jobs(self, prepared: PreparedDocument, missing: frozenset[bytes]) -> Iterator[_Job]:
        runs = prepared.runs
        sizes = [len(run) for run in runs]
        first_places = {key: place for place, key in reversed(list(enumerate(prepared.keys)))}
        absent = [key in missing and first_places[key] == place for place, key in enumerate(prepared.keys)]
        prefixes = self._prefixes_of(prepared.document.content_hash)
        window_tokens = self._window_tokens(prefixes[0].num_tokens)
        for plan in plan_windows(sizes, absent, window_tokens, self._recipe.overlap_tokens):
            kept = [(prepared.keys[index], runs[index]) for index in range(plan.first, plan.last)]
            window = EncodeWindow(
                self._tokens_before(prepared, plan), tuple(token for _key, ids in kept for token in ids)
            )
            yield _Job(window, prefixes, tuple(kept))

    def _tokens_before(self, prepared: PreparedDocument, plan: WindowPlan) -> tuple[int, ...]:
        """What is run before a window for context: the end of the header, if it is not in it, and of what follows."""
        before = [token for run in prepared.runs[: plan.first] for token in run][len(prepared.header) :]
        header = prepared.header[-self._recipe.overlap_tokens :] if plan.first and self._recipe.contexts else ()
        return (*header, *before[max(0, len(before) - plan.num_context_tokens) :])

    def _window_tokens(self, num_before: int) -> int:
        """The recipe's window, or what the model's context leaves of it behind ``num_before`` tokens."""
        room = self._model.geometry.max_positions - num_before - 2 * self._recipe.overlap_tokens
        if room < MAX_TOKENS:
            raise SettingRefused(f"the model's context is too short to encode in: {self._model.geometry.max_positions}")
        return min(self._recipe.window_tokens, room)

    def _prefixes_of(self, content_hash: str) -> tuple[PrefixKV, ...]:
        if self._recipe.contexts == 0:
            return (PrefixKV(0, ()),)
        recipe = self._recipe
        num_fillers = recipe.fillers if self._model.geometry.max_positions >= ROOMY_POSITIONS else 1
        contexts = choose_contexts(content_hash, self._pool, recipe.contexts, num_fillers)
        return tuple(self._prefix(fillers) for fillers in contexts)

    def _prefix(self, fillers: Sequence[Filler]) -> PrefixKV:
        sources = tuple(filler.source for filler in fillers)
        if sources not in self._prefixes:
            stretches = [token for filler in fillers for token in (*self._separator, *filler.token_ids)]
            self._prefixes[sources] = encode_prefix(self._model, (*self._preamble, *stretches))
        return self._prefixes[sources]

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
                yield content_record(key, self._fingerprint, self._recipe, shape, token_ids, chunk_layer)

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
