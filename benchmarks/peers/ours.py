"""kvboost's own side: documents indexed into a throwaway store, prompts as token ids, asks and full prefill."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

from kvboost_cli.bench.common import BenchModel, throwaway_workspace
from kvboost_cli.documents import SourceFile, discover, read_document
from kvboost_cli.model.catalog import resolve_model
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.asked import named_documents
from kvboost_cli.pipelines.asking import Answer, AskRequest, start_answer
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.lookup import build_prompt
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.prompt import header_ids, tail_ids
from kvboost_cli.pipelines.verify import prefill_reference
from kvboost_cli.pipelines.workspace import Workspace
from kvboost_cli.settings import user_cache_dir, user_model_dir

from .prompts import SizedText, fill, write_texts
from .workers.divergence import kl_divergence

DTYPE = "bfloat16"


@dataclass(frozen=True)
class Reference:
    """Full prefill of a prompt by transformers, in our process: its time, first logits and greedy answer."""

    ttft_s: float
    logits: torch.Tensor
    token_ids: list[int]


@dataclass(frozen=True)
class Asked:
    """One answer: seconds to the first token and per further token, its first logits, and its tokens.

    ``reused`` is the share of the prompt's tokens that were not computed.
    """

    ttft_s: float
    step_s: float | None
    reused: float
    logits: torch.Tensor
    token_ids: list[int]

    def kl_first(self, reference: Reference) -> float:
        """Of the first token, in nats."""
        return kl_divergence(reference.logits, self.logits)


@dataclass(frozen=True)
class Desk:
    """A workspace with indexed documents, and their paths in prompt order."""

    workspace: Workspace
    texts: list[SizedText]
    paths: list[str]

    @property
    def model_dir(self) -> Path:
        """Where the model is."""
        return self.workspace.handle.path

    def choose(self, num_tokens: int) -> list[str]:
        """The first documents, as many as come nearest to ``num_tokens``."""
        return self.paths[: len(fill(self.texts, num_tokens))]

    def prompt_ids(self, paths: Sequence[str], question: str) -> list[int]:
        """The very token ids that an ask runs."""
        codec = self.workspace.handle.codec
        frame = codec.frame(None)
        tail = tail_ids(codec, question, frame.closing)
        return build_prompt(codec, frame.preamble, named_documents(self.workspace, paths), tail).token_ids

    def prefill(self, token_ids: Sequence[int], max_tokens: int) -> Reference:
        """Full prefill, then greedy decoding."""
        reference = prefill_reference(self.workspace.handle.loaded, token_ids, max_tokens)
        return Reference(reference.ttft_s, reference.logits, list(reference.token_ids))

    def ask(self, paths: Sequence[str], question: str, repair: str, max_tokens: int) -> Asked:
        """The product's own path, timed from outside."""
        model = self.workspace.handle.loaded
        request = AskRequest(question=question, documents=paths, top_k=len(paths), repair=repair, max_tokens=max_tokens)
        model.synchronize()
        started = perf_counter()
        answer = start_answer(self.workspace, request)
        ttft_s = perf_counter() - started
        answer.drain(model)
        steps = len(answer.token_ids) - 1
        return Asked(
            ttft_s=ttft_s,
            step_s=answer.decode_s / steps if steps > 0 else None,
            reused=share_reused(answer),
            logits=answer.stitched.logits,
            token_ids=answer.token_ids,
        )


def share_reused(answer: Answer) -> float:
    """The share of the prompt's tokens whose KV came from the store and was left as it is."""
    plan = answer.stitched.plan
    stored = sum(len(plan.positions_with(hit)) for hit in (Hit.EXACT, Hit.CONTENT))
    return (stored - answer.stitched.num_repaired) / plan.num_tokens


@contextmanager
def indexed_desk(docs: Path, num_tokens: int) -> Iterator[Desk]:
    """Documents of a folder, about ``num_tokens`` of them, indexed with the default model and the default recipe."""
    with (
        TemporaryDirectory(prefix="kvboost-peers-") as folder,
        throwaway_workspace(BenchModel(_make_handle, dtype=DTYPE)) as workspace,
    ):
        texts = read_texts(docs, workspace)
        paths = write_texts(fill(texts, num_tokens), Path(folder))
        for _event in index_documents(workspace, IndexRequest([folder])):
            pass
        yield Desk(workspace, texts, paths)


def read_texts(docs: Path, workspace: Workspace) -> list[SizedText]:
    """All documents of a folder, by name."""
    codec = workspace.handle.codec
    sources = sorted((item for item in discover([docs]) if isinstance(item, SourceFile)), key=lambda item: item.path)
    texts = [(source.path.name, read_document(source).text) for source in sources]
    return [SizedText(name, text, len(codec.token_ids(text)) + len(header_ids(codec, name))) for name, text in texts]


def _make_handle(model: str | None, dtype: str) -> ModelHandle:
    resolved = resolve_model(model, user_model_dir())
    return ModelHandle(resolved.name, resolved.path, "cpu", dtype, user_cache_dir())
