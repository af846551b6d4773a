"""How the figures of ``bench ttft``, ``kv-cache`` and ``index`` look: one JSON object, or tables, and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console

if TYPE_CHECKING:
    from ..bench.decoding import DecodeRun, StepSummary
    from ..bench.encoding import EncodeRun, Rate
    from ..bench.intervals import Interval
    from ..bench.memory import MemoryUse
    from ..bench.ttft_results import SizeSummary, StrategySummary, TTFTRun

TTFT_COLUMNS = ("strategy", "TTFT ms", "faster", "/ floor", "repaired", "look up", "load", "pass", "floor ms")
MEMORY_COLUMNS = ("size", "strategy", "peak", "weights", "cache", "imports", "ratio")
STEP_COLUMNS = ("prompt", "generate ms", "kvboost ms", "faster")
RATE_COLUMNS = ("what", "tokens/s", "/ forward")
MILLISECONDS, MEGABYTE = 1000.0, 1e6
PICTURE_TITLE = "Time to first token"


def show_ttft(run: "TTFTRun", *, as_json: bool, plot: Path | None, quiet: bool) -> None:
    """Print the figures to stdout, then draw the picture."""
    from ..bench.ttft_picture import draw_ttft

    summaries = run.summaries
    if as_json:
        console.write_json(run.to_json())
    else:
        for summary in summaries:
            rows = [_strategy_row(one) for one in summary.strategies]
            console.render_table(_size_title(summary), TTFT_COLUMNS, rows, data=True)
            console.write_facts("\n")
        if run.memory:
            _show_memory(run)
        if not quiet:
            _explain_ttft(run)
    if plot is not None:
        draw_ttft(summaries, f"{PICTURE_TITLE}: {_describe(run.setup)}", plot)
        if not quiet:
            console.say(f"drawn: {plot}")


def _size_title(summary: "SizeSummary") -> str:
    plural = "" if summary.num_documents == 1 else "s"
    return (
        f"{summary.size}: {summary.num_prompts} prompts of {summary.prompt_tokens:,.0f} tokens in "
        f"{summary.num_documents} document{plural}; full prefill {_milliseconds(summary.full_prefill_s)} ms"
    )


def _strategy_row(one: "StrategySummary") -> tuple[str, ...]:
    phases = one.phases
    return (
        one.strategy,
        _milliseconds(one.ttft_s),
        f"{one.speedup.value:.1f}x",
        f"{one.floor_ratio.value:.2f}",
        f"{one.repaired_tokens:.0f}",
        f"{(phases['tokenize_s'] + phases['lookup_s']) * MILLISECONDS:,.0f}",
        f"{phases['load_s'] * MILLISECONDS:,.0f}",
        f"{(phases['encode_missing_s'] + phases['repair_s'] + phases['first_token_s']) * MILLISECONDS:,.0f}",
        _floor_cell(one),
    )


def _floor_cell(one: "StrategySummary") -> str:
    """The floor, and its parts: records, repaired tokens, tail."""
    floor = one.floor
    load, repair, tail = (f"{part * MILLISECONDS:,.0f}" for part in (floor.load_s, floor.repair_s, floor.tail_s))
    return f"{floor.total_s * MILLISECONDS:,.0f} ({load}+{repair}+{tail})"


def _show_memory(run: "TTFTRun") -> None:
    rows = [row for used in run.memory for row in _memory_rows(used)]
    title = "peak memory of a process, in MB; ratio: peak - imports, by weights + cache"
    console.render_table(title, MEMORY_COLUMNS, rows, data=True)
    console.write_facts("\n")


def _memory_rows(used: "MemoryUse") -> list[tuple[str, ...]]:
    least = used.weights_bytes + used.cache_bytes
    peaks = [*((ask.strategy, ask.peak_bytes) for ask in used.asks), ("full prefill", used.full_prefill_bytes)]
    return [
        (
            used.size, strategy, _megabytes(peak_bytes), _megabytes(used.weights_bytes), _megabytes(used.cache_bytes),
            _megabytes(used.imports_bytes), f"{(peak_bytes - used.imports_bytes) / least:.2f}",
        )
        for strategy, peak_bytes in peaks
    ]  # fmt: skip


def _explain_ttft(run: "TTFTRun") -> None:
    console.say_wrapped(
        "Medians, in milliseconds. faster: full prefill's time by TTFT, prompt by prompt. pass: repaired tokens,\n"
        "header lines and tail. floor: records copied + tokens before the tail + tail, each measured alone."
    )
    console.say_wrapped(_describe(run.setup))


def show_decoding(run: "DecodeRun", *, as_json: bool, quiet: bool) -> None:
    """Print the figures to stdout."""
    if as_json:
        console.write_json(run.to_json())
        return
    if run.cache is not None:
        cache = run.cache
        console.write_facts(
            f"{cache.tokens} tokens behind {cache.prompt_tokens:,}, prefill included: {cache.without_s:.1f} s "
            f"without a KV cache, {cache.with_s:.1f} s with one: {cache.ratio:.1f}x\n\n"
        )
    if run.steps:
        console.render_table(
            "one decoding step", STEP_COLUMNS, [_step_row(summary) for summary in run.summaries], data=True
        )
    if not quiet:
        console.say_wrapped(
            f"\nMedians over {run.repeats} turns of {run.tokens} tokens; generate: that of transformers."
        )
        console.say_wrapped(_describe(run.setup))


def _step_row(summary: "StepSummary") -> tuple[str, ...]:
    return (
        f"{summary.prompt_tokens:,}",
        f"{summary.generate_s.value * MILLISECONDS:,.1f}",
        f"{summary.kvboost_s.value * MILLISECONDS:,.1f}",
        _times(summary.ratio),
    )


def show_encoding(run: "EncodeRun", *, as_json: bool, quiet: bool) -> None:
    """Print the figures to stdout."""
    if as_json:
        console.write_json(run.to_json())
        return
    told = (("plain forward", run.forward), ("one context", run.context), ("exact", run.exact), ("whole", run.whole))
    rows = [_rate_row(name, rate) for name, rate in told if rate is not None]
    console.render_table("encoding", RATE_COLUMNS, rows, data=True)
    if not quiet:
        tokens = sum(one.tokens for one in run.passes) / len(run.passes)
        console.say_wrapped(
            f"\nDocuments of {tokens:,.0f} tokens. whole: `index` from files to the store, with all contexts, the\n"
            "exact pass and the contexts' own text."
        )
        console.say_wrapped(_describe(run.setup))


def _rate_row(name: str, rate: "Rate") -> tuple[str, ...]:
    return name, f"{rate.tokens_per_s.value:,.0f}", f"{rate.ratio.value:.0%}"


def _milliseconds(found: "Interval") -> str:
    return f"{found.value * MILLISECONDS:,.0f}"


def _times(found: "Interval") -> str:
    return f"{found.value:.1f}x ({found.low:.1f}-{found.high:.1f})"


def _megabytes(num_bytes: float) -> str:
    return f"{num_bytes / MEGABYTE:,.0f}"


def _describe(setup: Mapping[str, Any]) -> str:
    model, recipe = setup["model"], setup.get("recipe")
    encoded = "" if recipe is None else f", {recipe['bits']} bits, {recipe['contexts']} contexts"
    threads = setup["machine"]["threads"]
    plural = "" if threads == 1 else "s"
    return f"{model['name']} in {model['dtype']} on {model['device']}{encoded}; {threads} thread{plural}"
