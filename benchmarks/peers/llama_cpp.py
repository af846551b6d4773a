"""llama.cpp, by ``llama-cpp-python``, beside kvboost: the same model, as the GGUF (Q4_1) that ours was converted from.

Full prefill, its own reuse of a common beginning with the documents of an earlier prompt in the same order and in
another, and decoding, against our ``auto`` and ``none``.

Run: ``python -m benchmarks.peers.llama_cpp`` (package docstring: what is compared, and how it is timed). The first run
builds llama.cpp, which needs a C and a C++ compiler.
"""

from collections.abc import Iterator

import torch

from .candidate import WORKERS, Candidate, started_candidate
from .command import Options, SizeResult, parse_options, report, say
from .environment import ensure_environment, ensure_gguf
from .ours import Desk, indexed_desk
from .prompts import question, reordered
from .results import FULL, OURS, REORDERED, SAME_ORDER, Sample, ratio, summarize

PEER = "llama.cpp"
REPAIRS = ("auto", "none")
ANSWER_TOKENS = 32
ROOM_TOKENS = 512
"""Beside the wanted prompt size, in llama.cpp's context: for what a prompt is longer than wanted, and its answer."""

LONG_TOKENS = 2500
"""From this size on full prefill is measured once, as it takes a minute; and llama.cpp with reordered documents is not
measured: it has nothing but the preamble to reuse, and takes as long."""

WARM_UP_TOKENS = 256


def measure_full(desk: Desk, candidate: Candidate, token_ids: list[int]) -> list[Sample]:
    """Full prefill in both processes; afterwards llama.cpp's cache holds this prompt."""
    told = candidate.call("prefill", {"token_ids": token_ids, "max_tokens": 1})
    return [Sample(OURS, FULL, desk.prefill(token_ids, 1).ttft_s), Sample(PEER, FULL, told["ttft_s"])]


def measure_ours(desk: Desk, paths: list[str], asked: str, order: str) -> Iterator[Sample]:
    """A question over documents in one order, by each repair; decoding is timed, too."""
    for repair in REPAIRS:
        ours = desk.ask(paths, asked, repair, ANSWER_TOKENS)
        yield Sample(OURS, f"{repair}, {order}", ours.ttft_s, reused=ours.reused, step_s=ours.step_s)


def measure_peer(desk: Desk, candidate: Candidate, paths: list[str], asked: str, order: str) -> Sample:
    """The same by llama.cpp."""
    told = candidate.call("ask", {"token_ids": desk.prompt_ids(paths, asked), "max_tokens": ANSWER_TOKENS})
    return Sample(PEER, order, told["ttft_s"], reused=told["reused"], step_s=told["step_s"])


def measure_size(desk: Desk, candidate: Candidate, size: int, options: Options) -> SizeResult:
    """All turns of one prompt size. The orders of the second loop have nothing but the preamble in common."""
    paths, is_long = desk.choose(size), size >= LONG_TOKENS
    ids = desk.prompt_ids(paths, question(0))
    say(f"{size:,} tokens: warming up")
    candidate.call("prefill", {"token_ids": ids[:WARM_UP_TOKENS], "max_tokens": ANSWER_TOKENS})
    list(measure_ours(desk, paths, question(0), SAME_ORDER))
    samples: list[Sample] = []
    for turn in range(options.repeats):
        say(f"{size:,} tokens, {SAME_ORDER}: turn {turn + 1} of {options.repeats}")
        if turn == 0 or not is_long:
            samples += measure_full(desk, candidate, desk.prompt_ids(paths, question(turn)))
        samples += measure_ours(desk, paths, question(turn + 1), SAME_ORDER)
        samples.append(measure_peer(desk, candidate, paths, question(turn + 1), SAME_ORDER))
    for turn in range(options.repeats):
        say(f"{size:,} tokens, {REORDERED}: turn {turn + 1} of {options.repeats}")
        other = reordered(paths, turn)
        samples += measure_ours(desk, other, question(turn + 1), REORDERED)
        if not is_long:
            samples.append(measure_peer(desk, candidate, other, question(turn + 1), REORDERED))
    return SizeResult(len(ids), summarize(samples), compare(samples))


def compare(samples: list[Sample]) -> dict[str, float]:
    """How many times longer llama.cpp takes than we do to the first token, per order and repair."""
    measured = {sample.what for sample in samples if sample.who == PEER}
    told = {}
    for order in (SAME_ORDER, REORDERED):
        theirs = order if order in measured else FULL
        for repair in REPAIRS:
            what = f"{repair}, {order}"
            told[f"{PEER} {theirs} / {OURS} {what}"] = ratio(samples, (PEER, theirs), (OURS, what))
    return told


def main() -> None:
    """Parse, measure, print."""
    options = parse_options(__doc__, "1300,7500")
    python, gguf = ensure_environment("llama-cpp"), ensure_gguf()
    arguments = [str(gguf), str(torch.get_num_threads()), str(max(options.sizes) + ROOM_TOKENS)]
    with (
        indexed_desk(options.docs, max(options.sizes)) as desk,
        started_candidate(python, WORKERS / "llama_cpp_worker.py", arguments) as candidate,
    ):
        results = [measure_size(desk, candidate, size, options) for size in sorted(options.sizes)]
        report(options, {"name": PEER, **candidate.hello}, results)


if __name__ == "__main__":
    main()
