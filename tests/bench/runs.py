"""Runs whose figures are made up, for what only reads them."""

from dataclasses import replace

from kvboost_cli.bench.results import PromptResult, QualityRun, ReferenceResult, RunFacts, Setup, VariantResult

VARIANTS = ("alone/cacheblend:0.15", "none", "question:0.02")
SETUP = Setup(
    model={"name": "tiny", "device": "cpu", "dtype": "float32"},
    machine={"cpu": "a cpu", "threads": 1},
    recipe={"bits": 8, "contexts": 2},
    num_documents=4,
    passage_tokens=300,
    order="given",
    variants=VARIANTS,
)


def made_up_result(variant: str, kl: float, seconds: float, right: bool | None) -> VariantResult:
    return VariantResult(variant, kl, 2 * kl, 0.9, right, 32, seconds, 2 * seconds, "It is 4987.")


def made_up_prompt(task: str, number: int, seed: int = 1) -> PromptResult:
    """B has KL 0.4, 0.8, ...; `none` half of it in a tenth of the time, `question` a quarter in half of it."""
    kl, right = 0.4 * (number + 1), None if task == "summary" else number % 2 == 0
    told = None if right is None else True
    variants = (
        made_up_result(VARIANTS[0], kl, 0.2, right),
        made_up_result(VARIANTS[1], kl / 2, 0.02, right),
        made_up_result(VARIANTS[2], kl / 4, 0.1, told),
    )
    expected = () if right is None else ("4987",)
    reference = ReferenceResult(told, 0.8, "4987")
    return PromptResult(task, seed, number, 1300, ("000-a.md", "001-b.md"), "Which?", expected, reference, variants)


def made_up_run(*tasks: str, num_prompts: int = 4, seed: int = 1, docs: str = "/docs") -> QualityRun:
    prompts = tuple(made_up_prompt(task, number, seed) for task in tasks for number in range(num_prompts))
    return QualityRun(SETUP, (RunFacts(docs, num_prompts, seed, tasks, 12.5),), prompts)


def on_another_machine(run: QualityRun) -> QualityRun:
    return replace(run, setup=replace(run.setup, machine={"cpu": "another", "threads": 1}))
