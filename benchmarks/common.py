"""What the benchmarks share: passages of real documents, and workspaces in throwaway stores."""

import json
import platform
import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from kvboost_cli.documents import SourceFile, discover, read_document
from kvboost_cli.model.catalog import resolve_model
from kvboost_cli.model.codec import TextCodec
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.asking import AskRequest
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.workspace import Workspace, WorkspaceRequest, open_workspace
from kvboost_cli.settings import user_cache_dir, user_model_dir


@contextmanager
def indexed(folder: Path, *, bits: int = 8, contexts: int = 2, model: str | None = None) -> Iterator[Workspace]:
    """A throwaway store with all documents of ``folder``."""
    with TemporaryDirectory() as temporary:
        request = WorkspaceRequest(Path(temporary) / "store", model, "auto", bits, contexts)
        with open_workspace(request, make_handle, create=True) as workspace:
            for _event in index_documents(workspace, IndexRequest([str(folder)])):
                pass
            yield workspace


def make_handle(model: str | None, dtype: str) -> ModelHandle:
    """The model on this machine's best device."""
    resolved = resolve_model(model, user_model_dir())
    return ModelHandle(resolved.name, resolved.path, "auto", dtype, user_cache_dir())


def ask_request(question: str, documents: Sequence[str], repair: str) -> AskRequest:
    """A greedy request for up to 32 tokens, repaired at the strategy's own ratio."""
    return AskRequest(question, documents, 4, repair, None, False, 32, 0.0, None, None)


def write_passages(
    source: Path, target: Path, *, count: int, num_tokens: int, codec: TextCodec, seed: int
) -> list[str]:
    """Cut ``count`` passages of about ``num_tokens`` out of the files below ``source``; returns their paths.

    Each passage begins at a paragraph of its own file, chosen by ``seed``.
    """
    files = [item for item in discover([str(source)]) if isinstance(item, SourceFile)]
    random.Random(seed).shuffle(files)
    names: list[str] = []
    for file in files:
        if len(names) == count:
            break
        passage = _passage(read_document(file).text, num_tokens, codec, seed)
        if passage is not None:
            path = target / f"{len(names):03d}-{file.path.stem}.txt"
            path.write_text(passage, encoding="utf-8")
            names.append(str(path))
    return names


def _passage(text: str, num_tokens: int, codec: TextCodec, seed: int) -> str | None:
    paragraphs = text.split("\n\n")
    first = random.Random(f"{seed}{len(text)}").randrange(max(1, len(paragraphs) // 2))
    body = "\n\n".join(paragraphs[first:]).strip()[: num_tokens * 20]
    ids, offsets = codec.tokenize(body)
    if len(ids) < num_tokens:
        return None
    return body[: offsets[num_tokens - 1][1]]


def describe_machine() -> dict[str, object]:
    """The facts that a figure needs beside it."""
    return {
        "cpu": torch.cpu.get_capabilities().get("cpu_name", platform.processor()),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2))
