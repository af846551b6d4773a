"""The package ``kvboost`` of PyPI, which is by another author, beside this kvboost.

Its repairs ``selective`` and ``cacheblend``, with the documents of an earlier prompt in the same order and in another,
against full prefill by transformers in its process and in ours, and against our ``auto`` and ``none``.

Run: ``python -m benchmarks.peers.pypi_kvboost`` (package docstring: what is compared, and how it is timed).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .candidate import WORKERS, Candidate, started_candidate
from .command import Options, SizeResult, parse_options, report, say
from .environment import ensure_environment
from .ours import DTYPE, Desk, Reference, indexed_desk
from .prompts import question, reordered
from .results import FULL, OURS, REORDERED, SAME_ORDER, Sample, ratio, summarize

PEER = "PyPI kvboost"
STRATEGIES = ("selective", "cacheblend")
REPAIRS = ("auto", "none")
ANSWER_TOKENS = 16
"""Of answers that are compared; longer prompts give the first token only, to stay within minutes."""


@dataclass(frozen=True)
class Round:
    """One turn: the documents in both orders, their question, the prompts' token ids, and tokens per answer."""

    paths: list[str]
    other_paths: list[str]
    question: str
    token_ids: list[int]
    other_ids: list[int]
    answer_tokens: int


def make_round(desk: Desk, paths: list[str], turn: int, answer_tokens: int) -> Round:
    other, asked = reordered(paths, turn), question(turn + 1)
    ids = desk.prompt_ids(paths, asked), desk.prompt_ids(other, asked)
    return Round(paths, other, asked, *ids, answer_tokens)


def measure_ours(desk: Desk, turn: Round, reference: Reference) -> Iterator[Sample]:
    """Each repair in both orders, in our process."""
    for repair in REPAIRS:
        asked = desk.ask(turn.paths, turn.question, repair, turn.answer_tokens)
        yield Sample(
            OURS,
            f"{repair}, {SAME_ORDER}",
            asked.ttft_s,
            full_s=reference.ttft_s,
            reused=asked.reused,
            kl_first=asked.kl_first(reference),
            same_answer=asked.token_ids == reference.token_ids if turn.answer_tokens > 1 else None,
        )
        other = desk.ask(turn.other_paths, turn.question, repair, 1)
        yield Sample(OURS, f"{repair}, {REORDERED}", other.ttft_s, full_s=reference.ttft_s, reused=other.reused)


def measure_peer(candidate: Candidate, turn: Round) -> Iterator[Sample]:
    """Full prefill in the candidate's process, and each strategy in both orders."""
    tokens = {"max_tokens": turn.answer_tokens}
    full = candidate.call("prefill", {"token_ids": turn.token_ids, **tokens})
    yield Sample(PEER, FULL, full["ttft_s"])
    for strategy in STRATEGIES:
        reply = candidate.call("ask", {"strategy": strategy, "token_ids": turn.token_ids, **tokens})
        yield Sample(
            PEER,
            f"{strategy}, {SAME_ORDER}",
            reply["ttft_s"],
            full_s=full["ttft_s"],
            reused=reply["reused"],
            kl_first=reply["kl_first"],
            same_answer=reply["token_ids"] == full["token_ids"] if turn.answer_tokens > 1 else None,
        )
    yield from _measure_reordered(candidate, turn, full["ttft_s"])


def _measure_reordered(candidate: Candidate, turn: Round, full_s: float) -> Iterator[Sample]:
    """If nothing is reused no repair runs, and the other strategy would do the very same: it is not measured."""
    for strategy in STRATEGIES:
        reply = candidate.call("ask", {"strategy": strategy, "token_ids": turn.other_ids, "max_tokens": 1})
        what = f"{strategy}, {REORDERED}" if reply["reused"] else f"any repair, {REORDERED}"
        yield Sample(PEER, what, reply["ttft_s"], full_s=full_s, reused=reply["reused"])
        if not reply["reused"]:
            return


def measure_size(desk: Desk, candidate: Candidate, size: int, options: Options) -> SizeResult:
    """All turns of one prompt size, both sides in turn; what comes before them is not counted."""
    paths = desk.choose(size)
    is_smallest = size == min(options.sizes)
    say(f"{size:,} tokens: warming up")
    candidate.call("warm", {"token_ids": desk.prompt_ids(paths, question(0))})
    turn = make_round(desk, paths, options.repeats, 1)
    reference = desk.prefill(turn.token_ids, 1)
    list(measure_ours(desk, turn, reference))
    if is_smallest:
        list(measure_peer(candidate, turn))
    samples: list[Sample] = []
    for repeat in range(options.repeats):
        say(f"{size:,} tokens: turn {repeat + 1} of {options.repeats}")
        turn = make_round(desk, paths, repeat, ANSWER_TOKENS if is_smallest else 1)
        reference = desk.prefill(turn.token_ids, turn.answer_tokens)
        samples += [Sample(OURS, FULL, reference.ttft_s), *measure_ours(desk, turn, reference)]
        samples += measure_peer(candidate, turn)
    return SizeResult(len(turn.token_ids), summarize(samples), compare(samples))


def compare(samples: list[Sample]) -> dict[str, float]:
    """How many times longer the candidate takes than we do, per order: its faster strategy against each repair."""
    told = {}
    rows = [row for row in summarize(samples) if row.who == PEER]
    for order in (SAME_ORDER, REORDERED):
        best = min((row for row in rows if row.what.endswith(order)), key=lambda row: row.ttft_s).what
        for repair in REPAIRS:
            told[f"{PEER} {best} / {OURS} {repair}"] = ratio(samples, (PEER, best), (OURS, f"{repair}, {order}"))
    return told


def main() -> None:
    """Parse, measure, print."""
    options = parse_options(__doc__, "1300,4000")
    python = ensure_environment("pypi-kvboost")
    with indexed_desk(options.docs, max(options.sizes)) as desk:
        arguments = [str(desk.model_dir), DTYPE]
        with started_candidate(python, WORKERS / "pypi_kvboost_worker.py", arguments) as candidate:
            results = [measure_size(desk, candidate, size, options) for size in sorted(options.sizes)]
            report(options, {"name": PEER, **candidate.hello}, results)


if __name__ == "__main__":
    main()
