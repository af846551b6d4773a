"""How a benchmark's figures look: one JSON object, or a table per task, and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from .. import console

if TYPE_CHECKING:
    from ..bench.intervals import Interval
    from ..bench.results import QualityRun
    from ..bench.summary import TaskSummary, VariantSummary

COLUMNS = (
    "variant", "KL", "KL / B", "first KL", "top-1", "right", "/ full", "repaired", "repair ms", "/ B", "TTFT ms",
    "/ full",
)  # fmt: skip
MILLISECONDS = 1000.0
PICTURE_TITLE = "How close reused answers are to full prefill's, and how soon they begin"


def show(run: "QualityRun", *, as_json: bool, plot: Path | None, quiet: bool) -> None:
    """Print the figures to stdout, then draw the picture."""
    from ..bench.picture import draw_frontier
    from ..bench.summary import summarize_run

    tasks = summarize_run(run)
    if as_json:
        console.write_json({**run.to_json(), "tasks": [task.to_json() for task in tasks]})
    else:
        for task in tasks:
            console.render_table(_title(task), COLUMNS, [_row(variant) for variant in task.variants], data=True)
            console.write("\n")
        if not quiet:
            _explain(run)
    if plot is not None:
        draw_frontier(tasks, f"{PICTURE_TITLE}\n{_describe(run)}", plot)
        if not quiet:
            console.say(f"drawn: {plot}")


def _title(task: "TaskSummary") -> str:
    right = "" if task.accuracy is None else f"{task.accuracy.value:.0%} right, "
    return (
        f"{task.task}: {task.num_prompts} prompts of {task.prompt_tokens:,.0f} tokens; "
        f"full prefill: {right}TTFT {_milliseconds(task.ttft_s)} ms"
    )


def _row(variant: "VariantSummary") -> tuple[str, ...]:
    from ..bench.variants import label_of

    return (
        label_of(variant.variant),
        _with_interval(variant.kl_mean, ".4f"),
        _with_interval(variant.kl_ratio, ".2f"),
        _figure(variant.kl_first, ".4f"),
        _figure(variant.top1_agreement, ".3f"),
        _figure(variant.accuracy, ".0%"),
        _figure(variant.accuracy_ratio, ".0%"),
        _figure(variant.repaired_tokens, ".0f"),
        _milliseconds(variant.repair_s),
        _figure(variant.repair_ratio, ".2f"),
        _milliseconds(variant.ttft_s),
        _figure(variant.ttft_ratio, ".0%"),
    )


def _figure(found: "Interval | None", form: str) -> str:
    return "-" if found is None else format(found.value, form)


def _with_interval(found: "Interval | None", form: str) -> str:
    return "-" if found is None else f"{found.value:{form}} ({found.low:{form}}-{found.high:{form}})"


def _milliseconds(found: "Interval") -> str:
    return f"{found.value * MILLISECONDS:,.0f}"


def _explain(run: "QualityRun") -> None:
    console.say_wrapped(
        "KL in nats per token, over full prefill's own continuation; in brackets 95 % bootstrap intervals; times are "
        "medians.\nB is cacheblend 15 % over chunks encoded alone; / B and / full: relative to it and to full prefill."
    )
    console.say_wrapped(f"{_describe(run)}; {run.setup.machine['threads']} threads")


def _describe(run: "QualityRun") -> str:
    setup = run.setup
    recipe = f"{setup.recipe['bits']} bits, {setup.recipe['contexts']} contexts"
    return f"{setup.model['name']} in {setup.model['dtype']} on {setup.model['device']}, {recipe}"
