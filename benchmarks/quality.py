"""How far stitched prompts are from full prefill: KL and top-1 agreement by bits, contexts and repair.

Run: ``python benchmarks/quality.py --docs FOLDER --n 16``. Prints JSON. Each prompt has four passages of the folder's
documents in random order and asks for a summary of one; full prefill's own greedy continuation is teacher-forced.
"""

import argparse
import random
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from common import ask_request, describe_machine, indexed, make_handle, print_json, write_passages

from kvboost_cli.model.load import LoadedModel
from kvboost_cli.pipelines.asking import start_answer
from kvboost_cli.pipelines.verify import Reference, compute_reference, measure_divergence
from kvboost_cli.pipelines.workspace import Workspace

VARIANTS = ((16, 2), (8, 2), (4, 2), (8, 0))
REPAIRS = ("none", "selective", "cacheblend", "question")
"""Each with its own default ratio."""
ANSWER_TOKENS = 32


def make_prompts(names: list[str], count: int, seed: int) -> list[tuple[str, list[str]]]:
    """``count`` questions, each with four documents in random order."""
    chance = random.Random(seed)
    prompts = []
    for _ in range(count):
        documents = chance.sample(names, 4)
        title = Path(chance.choice(documents)).name
        prompts.append((f"Summarize the document {title} in two sentences.", documents))
    return prompts


def measure_variant(
    workspace: Workspace, prompts: list[tuple[str, list[str]]], references: dict[int, Reference]
) -> list[dict[str, object]]:
    """A row per repair strategy; references are computed with the first variant and reused."""
    model: LoadedModel = workspace.handle.loaded
    rows = []
    for repair in REPAIRS:
        sums: dict[str, list[float]] = defaultdict(list)
        for index, (question, documents) in enumerate(prompts):
            answer = start_answer(workspace, ask_request(question, documents, repair))
            stitched = answer.stitched
            ids = stitched.prompt.token_ids
            if index not in references:
                references[index] = compute_reference(model, ids, ANSWER_TOKENS)
            reference = references[index]
            found = measure_divergence(model, reference, stitched.kv, stitched.logits, len(ids), ANSWER_TOKENS)
            sums["kl_mean"].append(sum(found.kl) / len(found.kl))
            sums["kl_first"].append(found.kl[0])
            sums["top1_agreement"].append(sum(found.agrees) / len(found.agrees))
            sums["ttft_s"].append(sum(answer.phases.values()))
            sums["repaired_tokens"].append(stitched.num_repaired)
            sums["prompt_tokens"].append(len(ids))
        rows.append({"repair": repair, **{name: sum(values) / len(values) for name, values in sums.items()}})
    return rows


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", required=True, type=Path)
    parser.add_argument("--n", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default=None)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    references: dict[int, Reference] = {}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        codec = make_handle(options.model, "auto").codec
        names = write_passages(options.docs, folder, count=48, num_tokens=300, codec=codec, seed=options.seed)
        prompts = make_prompts(names, options.n, options.seed)
        for bits, contexts in VARIANTS:
            with indexed(folder, bits=bits, contexts=contexts, model=options.model) as workspace:
                bytes_per_token = workspace.store.stats().bytes_per_token
                for row in measure_variant(workspace, prompts, references):
                    rows.append({"bits": bits, "contexts": contexts, "bytes_per_token": bytes_per_token, **row})
    print_json({"machine": describe_machine(), "n": options.n, "seed": options.seed, "rows": rows})


if __name__ == "__main__":
    main()
