"""The package ``kvboost`` of PyPI, which is by another author, beside this kvboost.

Its repairs ``selective`` and ``cacheblend``, with the documents of an earlier prompt in the same order and in another,
against full prefill by transformers in its process and in ours, and against our ``auto`` and ``none``.

Run: ``python -m benchmarks.peers.pypi_kvboost`` (package docstring: what is compared, and how it is timed).
"""

from dataclasses import dataclass

from .candidate import WORKERS, Candidate, Reply, started_candidate
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


def measure_ours(desk: Desk, turn: Round) -> list[Sample]:
    """Full prefill in our process, and each repair in both orders."""
    reference = desk.prefill(turn.token_ids, turn.answer_tokens)
    samples = [Sample(OURS, FULL, reference.ttft_s)]
    for repair in REPAIRS:
        samples.append(_ask_ours(desk, turn, repair, reference))
        other = desk.ask(turn.other_paths, turn.question, repair, 1)
        samples.append(
            Sample(OURS, f"{repair}, {REORDERED}", other.ttft_s, full_s=reference.ttft_s, reused=other.reused)
        )
    return samples


def _ask_ours(desk: Desk, turn: Round, repair: str, reference: Reference) -> Sample:
    asked = desk.ask(turn.paths, turn.question, repair, turn.answer_tokens)
    return Sample(
        OURS,
        f"{repair}, {SAME_ORDER}",
        asked.ttft_s,
        full_s=reference.ttft_s,
        reused=asked.reused,
        kl_first=asked.kl_first(reference),
        same_answer=asked.token_ids == reference.token_ids if turn.answer_tokens > 1 else None,
    )


def measure_peer(candidate: Candidate, turn: Round) -> list[Sample]:
    """Full prefill in the candidate's process, and each strategy in both orders."""
    tokens = {"max_tokens": turn.answer_tokens}
    full = candidate.call("prefill", {"token_ids": turn.token_ids, **tokens})
    samples = [Sample(PEER, FULL, full["ttft_s"])]
    for strategy in STRATEGIES:
        reply = candidate.call("ask", {"strategy": strategy, "token_ids": turn.token_ids, **tokens})
        samples.append(_peer_sample(f"{strategy}, {SAME_ORDER}", reply, full, turn))
        other = candidate.call("ask", {"strategy": strategy, "token_ids": turn.other_ids, "max_tokens": 1})
        samples.append(
            Sample(PEER, f"{strategy}, {REORDERED}", other["ttft_s"], full_s=full["ttft_s"], reused=other["reused"])
        )
    return samples


def _peer_sample(what: str, reply: Reply, full: Reply, turn: Round) -> Sample:
    return Sample(
        PEER,
        what,
        reply["ttft_s"],
        full_s=full["ttft_s"],
        reused=reply["reused"],
        kl_first=reply["kl_first"],
        same_answer=reply["token_ids"] == full["token_ids"] if turn.answer_tokens > 1 else None,
    )


def measure_size(desk: Desk, candidate: Candidate, size: int, options: Options) -> SizeResult:
    """All turns of one prompt size, both sides in turn; what comes before them is not counted."""
    paths = desk.choose(size)
    answer_tokens = ANSWER_TOKENS if size == min(options.sizes) else 1
    say(f"{size:,} tokens: warming up")
    for strategy in STRATEGIES:
        candidate.call("warm", {"strategy": strategy, "token_ids": desk.prompt_ids(paths, question(0))})
    first = make_round(desk, paths, -1, 1)
    measure_ours(desk, first)
    if size == min(options.sizes):
        measure_peer(candidate, first)
    samples: list[Sample] = []
    for repeat in range(options.repeats):
        say(f"{size:,} tokens: turn {repeat + 1} of {options.repeats}")
        turn = make_round(desk, paths, repeat, answer_tokens)
        samples += measure_ours(desk, turn) + measure_peer(candidate, turn)
    return SizeResult(len(turn.token_ids), summarize(samples), compare(samples))


def compare(samples: list[Sample]) -> dict[str, float]:
    """How many times longer the candidate takes than we do, per order: its faster strategy against each repair."""
    rows = {(row.who, row.what): row.ttft_s for row in summarize(samples)}
    told = {}
    for order in (SAME_ORDER, REORDERED):
        best = min(((PEER, f"{strategy}, {order}") for strategy in STRATEGIES), key=rows.__getitem__)
        for repair in REPAIRS:
            told[f"{PEER} {best[1]} / {OURS} {repair}"] = ratio(samples, best, (OURS, f"{repair}, {order}"))
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
