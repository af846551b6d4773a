"""How an ask's report looks to people, on stderr: in full with a table and bars, or in one line."""

from typing import TYPE_CHECKING

from .. import console
from ..sheet import bar_cells

if TYPE_CHECKING:
    from ..pipelines.report import AskReport, Verification

PHASE_NAMES = {
    "tokenize_s": "tokenize",
    "lookup_s": "look up",
    "load_s": "load and rotate",
    "encode_missing_s": "compute missing",
    "repair_s": "repair and tail",
    "first_token_s": "first token",
}
PHASE_MARKS = dict(zip(PHASE_NAMES, console.BAR_MARKS, strict=False))
"""One mark for each phase in bars without colours, whichever phases there are."""

MILLISECONDS = 1000.0
LINE_CELLS = 12
VERIFY_TELLS = "--verify tells the speed-up"


def show_full(report: "AskReport", unknown: str = VERIFY_TELLS) -> None:
    """Everything: the phases as a table and a bar, where the tokens' KV came from, the speed-up.

    ``unknown`` is said where the speed-up is not known.
    """
    _show_phases(report)
    console.say_wrapped(_tokens_line(report))
    console.say_wrapped(_startup_line(report))
    if report.verify is not None:
        _show_verification(report, report.verify)
    else:
        console.say_wrapped(f"speed-up: {_estimate(report, unknown)}")


def show_line(report: "AskReport", unknown: str = VERIFY_TELLS) -> None:
    """One line: the time, its phases as a small bar, the tokens, and the speed-up or what ``unknown`` says of it."""
    tokens = report.tokens
    cells = bar_cells([report.phases.get(phase, 0.0) for phase in PHASE_NAMES], LINE_CELLS)
    bar = "".join(mark * count for mark, count in zip(PHASE_MARKS.values(), cells, strict=True))
    parts = ", ".join(f"{count:,} {source}" for source, count in tokens.sources.items() if count)
    console.say_wrapped(
        f"first token in {report.ttft_s * MILLISECONDS:,.0f} ms [{bar}] of {tokens.prompt:,} tokens: {parts}"
        + "".join(f"; {told}" for told in [_speed_up(report, unknown)] if told)
    )


def show_nothing(_report: "AskReport") -> None:
    """For ``--report none``."""


def _spent(report: "AskReport") -> list[tuple[str, float]]:
    return [(name, report.phases[phase]) for phase, name in PHASE_NAMES.items() if phase in report.phases]


def _show_phases(report: "AskReport") -> None:
    spent = _spent(report)
    rows = [(name, f"{seconds * MILLISECONDS:.1f}", f"{seconds / report.ttft_s:.0%}") for name, seconds in spent]
    rows.append(("total", f"{report.ttft_s * MILLISECONDS:.1f}", "100%"))
    console.say("")
    console.render_table("time to first token", ("phase", "ms", "share"), rows)
    console.render_bar(spent, marks="".join(mark for phase, mark in PHASE_MARKS.items() if phase in report.phases))


def _tokens_line(report: "AskReport") -> str:
    tokens = report.tokens
    names = {"repaired": f"repaired ({report.strategy})"}
    parts = " + ".join(f"{count:,} {names.get(source, source)}" for source, count in tokens.sources.items())
    line = f"tokens: {tokens.prompt:,} prompt = {parts}; {tokens.generated:,} generated"
    return line if report.decode_tokens_per_s is None else f"{line} at {report.decode_tokens_per_s:.1f}/s"


def _startup_line(report: "AskReport") -> str:
    startup = f"before that: imports {report.import_s:.2f} s, model {report.model_load_s:.2f} s"
    if report.gate_s:
        startup += f", checking the model once {report.gate_s:.2f} s"
    return f"{startup}; {report.model} in {report.dtype} on {report.device}"


def _speed_up(report: "AskReport", unknown: str) -> str:
    if report.verify is not None:
        return f"{report.verify.speedup:.1f}x as fast as full prefill"
    return _estimate(report, unknown)


def _estimate(report: "AskReport", unknown: str) -> str:
    if report.estimated_reference_s is None:
        return unknown
    speedup = report.estimated_reference_s / report.ttft_s
    return f"about {speedup:.1f}x as fast as full prefill, by an earlier --verify"


def _show_verification(report: "AskReport", verify: "Verification") -> None:
    rows = [
        ("kvboost", f"{report.ttft_s * MILLISECONDS:.1f}"),
        ("full prefill", f"{verify.reference_ttft_s * MILLISECONDS:.1f}"),
    ]
    console.say("")
    console.say("against full prefill of the same tokens")
    console.render_table("", ("", "TTFT ms"), rows)
    console.say_wrapped(
        f"speed-up: {verify.speedup:.1f}x; KL {verify.kl_mean:.4f} nats/token (first token {verify.kl_first:.4f}), "
        f"same top token in {verify.top1_agreement:.1%} of steps, "
        f"first {verify.matched_prefix} answer tokens equal"
    )
    if verify.reference_answer != report.answer:
        console.say(f"full prefill would have answered: {verify.reference_answer}")
