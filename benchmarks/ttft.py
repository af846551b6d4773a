"""Time to first token against full prefill, alternating in one process; and indexing against the raw forward.

Run: ``make bench``, or ``python benchmarks/ttft.py --repeats 7``. Prints JSON.
"""

import argparse
import json
import random
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from kvboost_cli.bench.common import BenchModel, describe_machine, throwaway_workspace
from kvboost_cli.model.catalog import resolve_model
from kvboost_cli.model.encode import EncodeWindow, encode_prefix, encode_windows
from kvboost_cli.model.forward import full_prefill
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.asking import AskRequest, start_answer
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.workspace import Workspace
from kvboost_cli.settings import user_cache_dir, user_model_dir

HANDBOOK = Path(__file__).parent.parent / "examples" / "handbook"
QUESTION = "Summarize what the second document says in one sentence."


def make_handle(model: str | None, dtype: str) -> ModelHandle:
    """The model on this machine's best device."""
    resolved = resolve_model(model, user_model_dir())
    return ModelHandle(resolved.name, resolved.path, "auto", dtype, user_cache_dir())


def ask_request(documents: list[str], repair: str) -> AskRequest:
    """A greedy request for up to 32 tokens, repaired at the strategy's own ratio."""
    return AskRequest(question=QUESTION, documents=documents, top_k=len(documents), repair=repair, max_tokens=32)


def measure_ttft(workspace: Workspace, repair: str, repeats: int) -> dict[str, object]:
    """Medians over ``repeats`` shuffled orders of four documents; the first order warms up."""
    model = workspace.handle.loaded
    names = [str(path) for path in sorted(HANDBOOK.iterdir())]
    ours, reference, tokens, phases = [], [], [], []
    for repeat in range(repeats + 1):
        documents = random.Random(repeat).sample(names, 4)
        request = ask_request(documents, repair)
        model.synchronize()
        started = perf_counter()
        answer = start_answer(workspace, request)
        between = perf_counter()
        ids = torch.tensor([answer.stitched.prompt.token_ids], device=model.device)
        logits, _cache = full_prefill(model, ids)
        int(logits[0, -1].argmax())
        ended = perf_counter()
        if repeat:
            ours.append(between - started)
            reference.append(ended - between)
            tokens.append(answer.stitched.plan.num_tokens)
            phases.append(answer.phases)
    return {
        "repair": repair,
        "prompt_tokens": median(tokens),
        "ttft_s": median(ours),
        "full_prefill_s": median(reference),
        "speedup": median([slow / fast for slow, fast in zip(reference, ours, strict=True)]),
        "phases_s": {name: median([phase.get(name, 0.0) for phase in phases]) for name in phases[0]},
    }


def measure_indexing(workspace: Workspace, repeats: int) -> dict[str, object]:
    """Tokens per second and pass of a window behind its fillers, against the plain forward of as many tokens."""
    model, recipe = workspace.handle.loaded, workspace.recipe
    ids = [int(token) for token in torch.randint(100, 40000, (recipe.window_tokens,))]
    pool = workspace.ensure_pool(lambda: ())
    prefix = encode_prefix(model, [token for filler in pool[: recipe.fillers] for token in filler.token_ids])
    window = EncodeWindow((), tuple(ids))
    plain, encoded = [], []
    for repeat in range(repeats + 1):
        started = perf_counter()
        for _layer in encode_windows(model, [window], [(prefix,) * recipe.contexts]):
            pass
        between = perf_counter()
        full_prefill(model, torch.tensor([ids], device=model.device))
        ended = perf_counter()
        if repeat:
            encoded.append((between - started) / recipe.contexts)
            plain.append(ended - between)
    return {
        "window_tokens": recipe.window_tokens,
        "encode_tokens_per_s_and_pass": recipe.window_tokens / median(encoded),
        "forward_tokens_per_s": recipe.window_tokens / median(plain),
        "share_of_forward": median([one / other for one, other in zip(plain, encoded, strict=True)]),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bits", type=int, default=8, choices=(4, 8, 16))
    parser.add_argument("--model", default=None)
    options = parser.parse_args()
    with throwaway_workspace(BenchModel(make_handle, options.model, bits=options.bits)) as workspace:
        for _event in index_documents(workspace, IndexRequest([str(HANDBOOK)])):
            pass
        facts = {
            "machine": describe_machine(),
            "bits": options.bits,
            "ttft": [measure_ttft(workspace, repair, options.repeats) for repair in ("none", "selective", "auto")],
            "indexing": measure_indexing(workspace, 3),
        }
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
