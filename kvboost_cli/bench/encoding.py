"""How fast documents are encoded, against the plain forward pass of as many tokens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from time import perf_counter

from ..documents import Skipped
from ..model.codec import TextCodec
from ..model.encode import EncodeWindow, PrefixKV, encode_prefix, encode_runs, encode_windows
from ..pipelines.indexing import IndexRequest, index_documents
from ..pipelines.workspace import Workspace
from .common import describe_setup
from .errors import DocumentsNotStored
from .floor import time_once
from .intervals import Interval, interval, medians
from .speed_prompts import cut_texts
from .summary import SEED
from .ttft import time_full_prefill

DOCUMENT_PASSAGES = 5
"""A document has 1,500 tokens: one window."""

RUN_TOKENS = 256
"""About as many as a chunk has."""

POOL_DOCUMENTS = 8
"""Documents of one passage that are indexed before the clock: the store takes its fillers from these."""


@dataclass(frozen=True)
class EncodeRequest:
    """How many documents to make of which folder's text."""

    docs: Path
    repeats: int
    seed: int


@dataclass(frozen=True)
class EncodeTexts:
    """One document for each repeat, and short ones for the store to take its fillers from."""

    documents: tuple[str, ...]
    pool: tuple[str, ...]


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a document's passes: the plain forward, one of its contexts, and the exact pass if it has one."""

    tokens: int
    forward_s: float
    context_s: float
    exact_s: float | None


@dataclass(frozen=True)
class WholeTimes:
    """One run of ``index`` over all documents: reading, all passes, quantizing, storing."""

    tokens: int
    seconds: float


@dataclass(frozen=True)
class Rate:
    """Tokens per second, and that by the plain forward's."""

    tokens_per_s: Interval
    ratio: Interval


@dataclass(frozen=True)
class EncodeRun:
    """Everything that was measured; ``setup`` has model, machine and recipe. ``complete``: it was not interrupted."""

    setup: Mapping[str, object]
    docs: str
    seed: int
    repeats: int
    seconds: float
    complete: bool
    passes: tuple[PassTimes, ...]
    whole_run: WholeTimes | None

    @property
    def forward(self) -> Rate:
        """The plain forward itself."""
        return self._rate(lambda one: one.forward_s)

    @property
    def context(self) -> Rate:
        """One context of a window."""
        return self._rate(lambda one: one.context_s)

    @property
    def exact(self) -> Rate | None:
        """The pass behind the preamble alone; None without ``exact``."""
        seconds = [one.exact_s for one in self.passes if one.exact_s is not None]
        return self._rate(lambda one: one.exact_s or 0.0) if seconds else None

    @property
    def whole(self) -> Rate | None:
        """``index`` from files to the store, by the median forward."""
        if self.whole_run is None:
            return None
        rate = self.whole_run.tokens / self.whole_run.seconds
        ratios = [rate * one.forward_s / one.tokens for one in self.passes]
        return Rate(Interval(rate, rate, rate), interval(ratios, SEED, medians))

    def _rate(self, seconds: Callable[[PassTimes], float]) -> Rate:
        return Rate(
            interval([one.tokens / seconds(one) for one in self.passes], SEED, medians),
            interval([one.forward_s / seconds(one) for one in self.passes], SEED, medians),
        )

    def to_json(self) -> dict[str, object]:
        """One object with all of it: an interval is ``[value, low, high]``."""
        facts = asdict(self)
        setup = facts.pop("setup")
        rates = {name: getattr(self, name) for name in ("forward", "context", "exact", "whole")}
        return {**setup, **facts, **{name: rate and _to_json(rate) for name, rate in rates.items()}}


def _to_json(rate: Rate) -> dict[str, object]:
    return {"tokens_per_s": list(astuple(rate.tokens_per_s)), "ratio": list(astuple(rate.ratio))}


def make_run(
    workspace: Workspace,
    request: EncodeRequest,
    seconds: float,
    passes: Sequence[PassTimes],
    whole: Sequence[WholeTimes],
    *,
    complete: bool,
) -> EncodeRun:
    """What was measured, with all that it depends on."""
    return EncodeRun(
        setup=describe_setup(workspace),
        docs=str(request.docs),
        seed=request.seed,
        repeats=request.repeats,
        seconds=seconds,
        complete=complete,
        passes=tuple(passes),
        whole_run=whole[0] if whole else None,
    )


def make_encode_texts(request: EncodeRequest, codec: TextCodec) -> EncodeTexts:
    """Texts that share nothing. Raises ``PathNotFound``, ``TooFewPassages``."""
    count = POOL_DOCUMENTS + DOCUMENT_PASSAGES * request.repeats
    texts = [passage.text for passage in cut_texts(request.docs, codec, count, request.seed)]
    firsts = range(POOL_DOCUMENTS, count, DOCUMENT_PASSAGES)
    documents = ("\n\n".join(texts[first : first + DOCUMENT_PASSAGES]) for first in firsts)
    return EncodeTexts(tuple(documents), tuple(texts[:POOL_DOCUMENTS]))


def measure_passes(workspace: Workspace, texts: Sequence[str]) -> Iterator[PassTimes | None]:
    """Each document's passes in turn; the store has its fillers. The first document warms up, and gives None, before.

    The contexts are those that come first: their time does not depend on their text.
    """
    handle, recipe = workspace.handle, workspace.recipe
    fillers = [token for filler in workspace.ensure_pool(lambda: ())[: recipe.fillers] for token in filler.token_ids]
    preamble = encode_prefix(handle.loaded, workspace.preamble)
    before = encode_prefix(handle.loaded, [*workspace.preamble, *fillers]) if recipe.contexts else PrefixKV(0, ())
    for number, text in enumerate([texts[0], *texts]):
        times = _time_passes(workspace, handle.codec.token_ids(text), preamble, before)
        yield times if number else None


def _time_passes(workspace: Workspace, ids: tuple[int, ...], preamble: PrefixKV, before: PrefixKV) -> PassTimes:
    model, recipe = workspace.handle.loaded, workspace.recipe
    contexts = max(1, recipe.contexts)
    runs = [ids[first : first + RUN_TOKENS] for first in range(0, len(ids), RUN_TOKENS)]

    def in_contexts() -> None:
        for _layer in encode_windows(model, [EncodeWindow((), ids)], [(before,) * contexts]):
            pass

    def exactly() -> None:
        for passed in encode_runs(model, preamble, runs):
            for _number, layers in passed:
                for _layer in layers:
                    pass

    return PassTimes(
        tokens=len(ids),
        forward_s=time_full_prefill(model, ids),
        context_s=time_once(model, in_contexts) / contexts,
        exact_s=time_once(model, exactly) if recipe.exact else None,
    )


def prepare_pool(workspace: Workspace, folder: Path, texts: Sequence[str]) -> None:
    """Index short documents, of which the store takes its fillers. Raises ``DocumentsNotStored``."""
    _write(folder, texts)
    _index(workspace, folder)


def measure_whole(workspace: Workspace, folder: Path, texts: Sequence[str]) -> WholeTimes:
    """Index documents that the store has not seen, in one run. Raises ``DocumentsNotStored``."""
    _write(folder, texts)
    started = perf_counter()
    _index(workspace, folder)
    seconds = perf_counter() - started
    return WholeTimes(sum(len(workspace.handle.codec.token_ids(text)) for text in texts), seconds)


def _write(folder: Path, texts: Sequence[str]) -> None:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number:03d}.md").write_text(text, encoding="utf-8")


def _index(workspace: Workspace, folder: Path) -> None:
    with workspace.store.writer_lock():
        for event in index_documents(workspace, IndexRequest([str(folder)])):
            if isinstance(event, Skipped):
                raise DocumentsNotStored(f"a document of the benchmark was not indexed, {event.reason}: {event.path}")
