"""Made-up use of a store: documents that come over time, and questions that want some of them more than others.

What is assumed, and can be set where it matters:

- A question is about one document. Which one is skewed: the r-th most popular is asked about as r ** -skew says. What
  is popular changes: DRIFTS times a tenth of the documents change places.
- Search brings OTHERS documents more, that happen to have the question's words: any of those that are there.
- Of the document that it is about a question wants the chunk that answers it, most often the same one, and the next; of
  the others one chunk each.
- It looks at the chunk that answers: a fifth to a half of its attention, and hardly at the others.
- Half of the documents are there from the start, and each of the rest is indexed at some moment in between.
"""

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

PERIOD_S = 90 * 24 * 3600.0
START_S = 1.7e9
MIN_TOKENS, MAX_TOKENS = 128, 512
MAX_CHUNKS = 12
OTHERS = 3
DRIFTS = 9


@dataclass(frozen=True)
class TraceRequest:
    """How large a trace is, and how skewed: 0 is not at all."""

    num_documents: int
    num_questions: int
    skew: float
    seed: int


@dataclass(frozen=True)
class Arrival:
    """A document is indexed."""

    at: float
    document: int


@dataclass(frozen=True)
class Question:
    """Chunks of documents are wanted: (document, place) with the attention that each gets."""

    at: float
    wanted: tuple[tuple[tuple[int, int], float], ...]


@dataclass(frozen=True)
class Trace:
    """The tokens of each document's chunks, and what happens, in order."""

    chunk_tokens: tuple[tuple[int, ...], ...]
    events: tuple[Arrival | Question, ...]


def make_trace(request: TraceRequest) -> Trace:
    """The same request makes the same trace."""
    source = random.Random(f"kvboost eviction {request.seed}")
    chunk_tokens = tuple(_document(source) for _ in range(request.num_documents))
    arrivals = [
        Arrival(START_S + (0.0 if number % 2 else source.random() * PERIOD_S), number)
        for number in range(request.num_documents)
    ]
    questions = _questions(source, request, chunk_tokens, {arrival.document: arrival.at for arrival in arrivals})
    events: list[Arrival | Question] = [*arrivals, *questions]
    return Trace(chunk_tokens, tuple(sorted(events, key=lambda event: event.at)))


def _document(source: random.Random) -> tuple[int, ...]:
    num_chunks = min(MAX_CHUNKS, 1 + int(source.expovariate(0.3)))
    return tuple(source.randint(MIN_TOKENS, MAX_TOKENS) for _ in range(num_chunks))


def _questions(
    source: random.Random, request: TraceRequest, chunk_tokens: Sequence[tuple[int, ...]], arrived: dict[int, float]
) -> Iterator[Question]:
    ranks = source.sample(range(request.num_documents), request.num_documents)
    totals = list(accumulate((rank + 1) ** -request.skew for rank in range(request.num_documents)))
    answers = [source.randrange(len(tokens)) for tokens in chunk_tokens]
    for number in range(request.num_questions):
        if number % max(1, request.num_questions // (DRIFTS + 1)) == 0 and number:
            _drift(source, ranks)
        at = START_S + (number + 1) * PERIOD_S / request.num_questions
        there = [document for document, since in arrived.items() if since < at]
        about = ranks[bisect_left(totals, source.random() * totals[-1])]
        if arrived[about] >= at:  # nobody can ask about it yet
            about = source.choice(there)
        yield Question(at, tuple(_wanted(source, about, answers[about], source.sample(there, OTHERS), chunk_tokens)))


def _wanted(
    source: random.Random, about: int, answer: int, others: Sequence[int], chunk_tokens: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, int], float]]:
    num_chunks = len(chunk_tokens[about])
    place = answer if source.random() < 0.8 else source.randrange(num_chunks)
    yield (about, place), source.uniform(0.2, 0.5)
    if place + 1 < num_chunks:
        yield (about, place + 1), source.uniform(0.0, 0.05)
    for other in others:
        if other != about:
            yield (other, source.randrange(len(chunk_tokens[other]))), source.uniform(0.0, 0.05)


def _drift(source: random.Random, ranks: list[int]) -> None:
    for _ in range(max(1, len(ranks) // 20)):  # a swap moves two
        one, other = source.randrange(len(ranks)), source.randrange(len(ranks))
        ranks[one], ranks[other] = ranks[other], ranks[one]
