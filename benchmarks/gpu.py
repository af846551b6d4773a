"""Time to first token on a GPU against full prefill by transformers, with random-weight models of real shapes.

Speed depends on a model's shape and not on what its weights have learnt, so nothing has to be fetched; answers mean
nothing. Run: ``benchmarks/gpu.sh``; to see that it runs, on any machine: ``benchmarks/gpu.sh --tiny --device cpu``.
Prints a table for each model, and writes all facts as JSON to ``$OUT/gpu.json`` if OUT is set.
"""

import argparse
import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from gpu_models import make_text, save_model

from kvboost_cli.bench.common import BenchModel, describe_machine, throwaway_workspace
from kvboost_cli.model.forward import full_prefill
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.model.load import DTYPES, choose_device, choose_dtype
from kvboost_cli.pipelines.asking import Answer, AskRequest, start_answer
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.streaming import has_kernel
from kvboost_cli.pipelines.workspace import Workspace

STRATEGIES = ("none", "selective", "question")
QUESTION = "Which of these documents says most?"
ANSWER_TOKENS = 32


@dataclass(frozen=True)
class Scale:
    """Models to build, prompt sizes in tokens, and how many documents there are; a word is 1.3 tokens."""

    models: tuple[str, ...]
    prompts: tuple[int, ...]
    num_documents: int
    document_words: int


FULL = Scale(("qwen2.5-3b", "llama-3.1-8b"), (2048, 8192, 16384), num_documents=16, document_words=780)
TINY = Scale(("tiny",), (256, 512, 1024), num_documents=8, document_words=110)


@dataclass(frozen=True)
class Sample:
    """One ask beside one full prefill of the same token ids, in seconds."""

    num_tokens: int
    ttft_s: float
    full_s: float
    phases_s: dict[str, float]
    decode_ms: float | None


def index_all(workspace: Workspace, folder: Path) -> dict[str, float]:
    """Index the documents; seconds and tokens per second, the model's loading left out."""
    workspace.handle.loaded.synchronize()
    started = perf_counter()
    with workspace.store.writer_lock():
        for _event in index_documents(workspace, IndexRequest([str(folder)])):
            pass
    seconds, stats = perf_counter() - started, workspace.store.stats()
    return {
        "tokens": stats.num_tokens,
        "seconds": seconds,
        "tokens_per_s": stats.num_tokens / seconds,
        "bytes_per_token": stats.bytes_per_token,
    }


def sample_asks(workspace: Workspace, names: Sequence[str], seed: int) -> Iterator[tuple[str, Sample]]:
    """Each strategy over the documents in a shuffled order, and full prefill once."""
    order, model = random.Random(seed).sample(names, len(names)), workspace.handle.loaded
    full_s = 0.0
    for strategy in STRATEGIES:
        request = AskRequest(
            question=QUESTION, documents=order, top_k=len(order), repair=strategy, max_tokens=ANSWER_TOKENS
        )
        model.synchronize()
        started = perf_counter()
        answer = start_answer(workspace, request)
        ttft_s = perf_counter() - started
        full_s = full_s or time_full_prefill(workspace, answer)
        answer.drain(model)
        decoded = len(answer.token_ids) - 1
        decode_ms = 1000 * answer.decode_s / decoded if decoded > 0 else None
        yield strategy, Sample(answer.stitched.plan.num_tokens, ttft_s, full_s, answer.phases, decode_ms)


def time_full_prefill(workspace: Workspace, answer: Answer) -> float:
    """The same token ids by transformers alone, up to the first token on the host."""
    model = workspace.handle.loaded
    model.synchronize()
    started = perf_counter()
    ids = torch.tensor([answer.stitched.prompt.token_ids], device=model.device)
    logits, _cache = full_prefill(model, ids)
    int(logits[0, -1].argmax())
    return perf_counter() - started


def measure(workspace: Workspace, names: Sequence[str], repeats: int) -> list[dict[str, object]]:
    """Medians per strategy; the first order warms up and is not counted."""
    samples: dict[str, list[Sample]] = {strategy: [] for strategy in STRATEGIES}
    for seed in range(repeats + 1):
        for strategy, sample in sample_asks(workspace, names, seed):
            if seed:
                samples[strategy].append(sample)
    return [{"strategy": strategy, **summarize(taken)} for strategy, taken in samples.items()]


def measure_sizes(
    workspace: Workspace, documents: Path, sizes: Sequence[int], repeats: int
) -> Iterator[dict[str, object]]:
    """Each prompt size, by as many documents as that takes; prints as it goes."""
    names = sorted(str(path) for path in documents.iterdir())
    per_document = workspace.store.stats().num_tokens / len(names)
    for size in sizes:
        for row in measure(workspace, names[: max(2, round(size / per_document))], repeats):
            print_row(row)
            yield row


def summarize(samples: Sequence[Sample]) -> dict[str, object]:
    decode = [sample.decode_ms for sample in samples if sample.decode_ms is not None]
    phases = {name: median([one.phases_s.get(name, 0.0) for one in samples]) for name in samples[0].phases_s}
    return {
        "prompt_tokens": median([sample.num_tokens for sample in samples]),
        "ttft_s": median([sample.ttft_s for sample in samples]),
        "full_prefill_s": median([sample.full_s for sample in samples]),
        "speedup": median([sample.full_s / sample.ttft_s for sample in samples]),
        "phases_s": phases,
        "decode_ms_per_token": median(decode) if decode else None,
    }


@contextmanager
def model_workspace(name: str, device: torch.device, dtype: str) -> Iterator[Workspace]:
    """The model saved to a folder that is gone afterwards, and an empty store for it."""
    with TemporaryDirectory(prefix="kvboost-gpu-") as folder:
        path = save_model(name, Path(folder) / name, device, DTYPES[dtype])
        if device.type == "cuda":
            torch.cuda.empty_cache()  # of the copy that was saved
            torch.cuda.reset_peak_memory_stats()
        handle = ModelHandle(name, path, device.type, dtype, Path(folder) / "cache")
        with throwaway_workspace(BenchModel(lambda _model, _dtype: handle, str(path), dtype)) as workspace:
            yield workspace


def bench_model(name: str, scale: Scale, documents: Path, device: torch.device, options: argparse.Namespace) -> object:
    dtype = choose_dtype("auto", device)
    print(f"\n{name}, {dtype} on {device}", flush=True)
    started = perf_counter()
    with model_workspace(name, device, dtype) as workspace:
        indexed = index_all(workspace, documents)
        print(f"indexed {indexed['tokens']:,} tokens at {indexed['tokens_per_s']:,.0f} tokens/s", flush=True)
        rows = list(measure_sizes(workspace, documents, scale.prompts, options.repeats))
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
        handle = workspace.handle
    return {
        "model": name, "dtype": dtype, "indexing": indexed, "asks": rows, "peak_device_bytes": peak,
        "model_load_s": handle.load_s, "seconds": perf_counter() - started,
    }  # fmt: skip


def print_row(row: dict[str, object]) -> None:
    phases = "  ".join(f"{name.removesuffix('_s')} {1000 * value:.1f}" for name, value in row["phases_s"].items())
    decode = row["decode_ms_per_token"]
    told = "" if decode is None else f"  decode {decode:.1f} ms/token"
    print(
        f"{row['prompt_tokens']:>7,.0f} tokens  {row['strategy']:<10} {1000 * row['ttft_s']:8.1f} ms"
        f"  full prefill {1000 * row['full_prefill_s']:8.1f} ms  {row['speedup']:6.1f}x  [{phases}]{told}",
        flush=True,
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a toy model and short prompts, to try the script")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--model", action="append", help="one of the shapes; may be repeated (default: all)")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    scale, device, started = TINY if options.tiny else FULL, choose_device(options.device), perf_counter()
    with TemporaryDirectory(prefix="kvboost-gpu-") as folder:
        for number in range(scale.num_documents):
            path = Path(folder) / f"document-{number:02d}.txt"
            path.write_text(make_text(number, scale.document_words), encoding="utf-8")
        models = [bench_model(name, scale, Path(folder), device, options) for name in options.model or scale.models]
    facts = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": describe_machine(),
        "fused_kernel": has_kernel(device), "models": models, "seconds": perf_counter() - started,
    }  # fmt: skip
    print(f"\n{facts['seconds']:.0f} s in all")
    if "OUT" in os.environ:
        Path(os.environ["OUT"], "gpu.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
