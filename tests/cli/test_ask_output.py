"""What `ask` and `stats` print: the answer, the JSON objects, the report; in pipes and on a terminal."""

import json
import re
from typing import Any

import pytest
from desks import ESCAPE, Desk

QUESTION = "Who is on call, and when is the week handed over?"
REPORT = re.compile(
    r"time to first token.*\ntokens: .* exact \+ .* reused \+ .* repaired \(question\) \+ .* prefilled", re.DOTALL
)
NUMBER = (int, float)
ASK: dict[str, Any] = {
    "answer": str, "finish_reason": str, "model": str, "device": str, "dtype": str,
    "documents": [{"path": str, "tokens": int, "hit": str}],
    "tokens": dict.fromkeys(("prompt", "exact", "reused", "repaired", "prefilled", "generated"), int),
    "ttft": dict.fromkeys(
        ("total_s", "tokenize_s", "lookup_s", "load_s", "encode_missing_s", "repair_s", "first_token_s"), float
    ),
    "startup": dict.fromkeys(("import_s", "model_load_s", "gate_s"), float),
    "decode": {"tokens_per_s": (float, type(None))},
    "repair": {"strategy": str, "ratio": (float, type(None))},
    "estimate": type(None),
    "verify": type(None),
}  # fmt: skip
VERIFY = {
    "reference_ttft_s": float, "speedup": float, "kl_first": float, "kl_mean": float, "top1_agreement": float,
    "matched_prefix": int, "reference_answer": str,
}  # fmt: skip
STATS = {
    "store": str, "format": int, "bytes": {"file": int, "live": int, "disk": int, "budget": type(None)},
    "documents": int, "chunks": int, "evicted": int, "pinned": int, "tokens": int, "bytes_per_token": NUMBER,
    "models": [{"name": str, "fingerprint": str, "recipe": dict}],
    "collections": [dict.fromkeys(("path", "documents", "chunks", "tokens", "bytes", "asks"), (int, str))],
    "by_document": type(None), "hottest": [dict], "coldest": [dict],
    "asks": dict.fromkeys(("count", "exact", "content", "miss"), int),
    "ttft": dict.fromkeys(("p50_s", "p95_s"), (float, type(None))),
    "speedup": {"p50": (float, type(None)), "measured": int, "estimated": int},
    "days": [{"day": str, "asks": int, "tokens": dict.fromkeys(("exact", "reused", "repaired", "prefilled"), int)}],
    "recent": [{"at": str, "ttft_s": float, "speedup": (float, type(None)), "estimated": bool}],
    "fidelity": {
        "passed": bool, "reason": type(None), "machinery_passed": bool, "machinery_kl": float,
        "machinery_max_logit_diff": float, "repair": str, "kl_mean": float, "kl_first": float, "top1_agreement": float,
        "model": str, "recipe": str, "machine": str, "at": float, "seconds": float,
    },
}  # fmt: skip


def assert_shape(value: Any, shape: Any, place: str = "") -> None:
    """Exactly these keys, in this order, each of its type."""
    if isinstance(shape, dict):
        assert list(value) == list(shape), place
        for key, inner in shape.items():
            assert_shape(value[key], inner, f"{place}.{key}")
    elif isinstance(shape, list):
        assert value, place
        for item in value:
            assert_shape(item, shape[0], f"{place}[]")
    else:
        assert isinstance(value, shape), f"{place}: {value!r}"
        assert isinstance(value, bool) == (shape is bool), place


def assert_sums(told: Any) -> None:
    """Phases sum to the total, and every prompt token is in one of the four."""
    total, *phases = told["ttft"].values()
    assert sum(phases) == pytest.approx(total, rel=0.01)
    tokens = told["tokens"]
    assert sum(tokens[name] for name in ("exact", "reused", "repaired", "prefilled")) == tokens["prompt"]


def test_json_has_the_documented_keys_types_and_sums(desk: Desk) -> None:
    told = desk.facts("ask", QUESTION, "-d", "on-call.md", "-d", "access.md", "--ratio", "0.1")
    assert_shape(told, ASK)
    assert_sums(told)
    assert told["repair"] == {"strategy": "question", "ratio": 0.1}
    assert told["tokens"]["repaired"] > 0
    assert told["tokens"]["generated"] == 3
    assert told["finish_reason"] == "length"
    stats = desk.facts("stats")
    assert_shape(stats, STATS)
    assert (stats["documents"], stats["asks"]) == (8, {"count": 1, "exact": 1, "content": 1, "miss": 0})
    assert stats["ttft"]["p50_s"] == pytest.approx(told["ttft"]["total_s"])


def test_verify_compares_with_full_prefill(desk: Desk) -> None:
    told = desk.facts("ask", QUESTION, "-d", "on-call.md", "--verify", "--repair", "none", "--max-tokens", "1")
    assert_shape(told, {**ASK, "verify": VERIFY})
    assert_sums(told)
    assert (told["tokens"]["repaired"], told["tokens"]["generated"], told["decode"]["tokens_per_s"]) == (0, 1, None)
    full = desk.facts("ask", QUESTION, "-d", "on-call.md", "--verify", "--no-cache")
    assert_shape(full, {**ASK, "verify": VERIFY})
    assert_sums(full)
    assert full["tokens"]["prefilled"] == full["tokens"]["prompt"] == told["tokens"]["prompt"]
    verify = full["verify"]
    assert (verify["reference_answer"], verify["matched_prefix"]) == (full["answer"], 3)
    assert verify["kl_mean"] < 1e-3, "both are full prefill; the continuation is run in other blocks"
    assert desk.facts("stats")["asks"]["count"] == 1, "--no-cache leaves no trace"


def test_in_a_pipe_the_answer_alone_goes_to_stdout_without_escape_codes(desk: Desk) -> None:
    bare = {name: value for name, value in desk.env.items() if name != "NO_COLOR"}
    coloured = Desk(desk.root, desk.docs, desk.store, bare | {"TERM": "xterm-256color"})
    sampled = ("--temperature", "1", "--max-tokens", "12")
    loud = coloured.run("ask", QUESTION, "-d", "on-call.md", *sampled, "--seed", "3")
    quiet = desk.run("ask", QUESTION, "-d", "on-call.md", "-q", *sampled, "--seed", "3")
    assert (loud.returncode, quiet.returncode, quiet.stderr) == (0, 0, "")
    assert REPORT.search(loud.stderr)
    assert ESCAPE not in loud.stdout + loud.stderr
    assert loud.stdout == quiet.stdout, "the same seed gives the same answer"
    assert loud.stdout.endswith("\n")


def test_a_terminal_shows_progress_colours_and_the_report(desk: Desk) -> None:
    desk.write("new.md", "The tide turns at nine.\n")
    shown = desk.open_terminal("index", "new.md")
    assert shown.finish() == 0, shown.shown
    assert re.search(r"1/1 documents, 1 chunks", shown.shown)
    assert ESCAPE in shown.shown
    plain = desk.open_terminal("ask", QUESTION, "-d", "new.md", NO_COLOR="1")
    assert plain.finish() == 0, plain.shown
    assert REPORT.search(plain.shown.replace("\r\n", "\n"))
    assert not re.search(rf"{ESCAPE}\[(3\d|4\d|9\d)", plain.shown), "no colours"


def test_a_reader_that_goes_away_is_no_error_and_the_store_is_whole(desk: Desk) -> None:
    process = desk.start("ask", QUESTION, "-d", "on-call.md", "--max-tokens", "200")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0, told
    assert "Traceback" not in told
    assert desk.facts("stats")["documents"] == 8


def test_the_pages_of_facts_are_for_people_and_for_programs(desk: Desk) -> None:
    stats = desk.run("stats")
    assert (stats.returncode, stats.stderr) == (0, "")
    assert re.search(r"^documents +8$", stats.stdout, re.MULTILINE)
    assert ESCAPE not in stats.stdout
    assert json.loads(desk.run("path", "--json").stdout)["store"] == str(desk.store)
    assert desk.run("path").stdout.startswith(f"store: {desk.store}\n")
    (model,) = desk.facts("models", "list")["models"]
    assert model["name"] == "SmolLM2-135M-Instruct"
