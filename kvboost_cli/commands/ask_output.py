"""How an ask's report looks: one JSON object, or a table and a bar of the phases on stderr."""

from typing import TYPE_CHECKING

from .. import console

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
MILLISECONDS = 1000.0


def show(report: "AskReport", *, as_json: bool, quiet: bool) -> None:
    """Print the report: JSON to stdout, or for people to stderr unless ``quiet``."""
    if as_json:
        console.write_json(report.to_json())
    elif not quiet:
        _show_phases(report)
        console.say(_tokens_line(report))
        if report.verify is not None:
            _show_verification(report, report.verify)


def _show_phases(report: "AskReport") -> None:
    spent = [(name, report.phases[phase]) for phase, name in PHASE_NAMES.items() if phase in report.phases]
    rows = [(name, f"{seconds * MILLISECONDS:.1f}", f"{seconds / report.ttft_s:.0%}") for name, seconds in spent]
    rows.append(("total", f"{report.ttft_s * MILLISECONDS:.1f}", "100%"))
    console.say("")
    console.render_table("time to first token", ("phase", "ms", "share"), rows)
    console.render_bar(spent)


def _tokens_line(report: "AskReport") -> str:
    tokens = report.tokens
    line = (
        f"tokens: {tokens.prompt:,} prompt = {tokens.exact:,} exact + {tokens.reused:,} reused + "
        f"{tokens.repaired:,} repaired ({report.strategy}) + {tokens.prefilled:,} prefilled; "
        f"{tokens.generated:,} generated"
    )
    if report.decode_tokens_per_s is not None:
        line += f" at {report.decode_tokens_per_s:.1f}/s"
    startup = f"before that: imports {report.import_s:.2f} s, model {report.model_load_s:.2f} s"
    if report.gate_s:
        startup += f", checking the model once {report.gate_s:.2f} s"
    return f"{line}\n{startup}; {report.model} in {report.dtype} on {report.device}"


def _show_verification(report: "AskReport", verify: "Verification") -> None:
    rows = [
        ("kvboost", f"{report.ttft_s * MILLISECONDS:.1f}"),
        ("full prefill", f"{verify.reference_ttft_s * MILLISECONDS:.1f}"),
    ]
    console.say("")
    console.say("against full prefill of the same tokens")
    console.render_table("", ("", "TTFT ms"), rows)
    console.say(
        f"speed-up: {verify.speedup:.1f}x; KL {verify.kl_mean:.4f} nats/token (first token {verify.kl_first:.4f}), "
        f"same top token in {verify.top1_agreement:.1%} of steps, "
        f"first {verify.matched_prefix} answer tokens equal"
    )
    if verify.reference_answer != report.answer:
        console.say(f"full prefill would have answered: {verify.reference_answer}")
