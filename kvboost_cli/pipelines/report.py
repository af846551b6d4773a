"""What an ask did, as facts: the object behind ``ask --json`` and the report on the terminal."""

from dataclasses import asdict, dataclass

from .plan import Hit, StitchPlan

PHASES = ("tokenize_s", "lookup_s", "load_s", "encode_missing_s", "repair_s", "first_token_s")
"""Phases of the time to first token, in the order in which they happen; docs/architecture.md defines each."""


@dataclass(frozen=True)
class DocumentReport:
    """A document of the prompt: its tokens without the header, and where their KV came from."""

    path: str
    tokens: int
    hit: str


@dataclass(frozen=True)
class TokenCounts:
    """``exact + reused + repaired + prefilled == prompt``: every prompt token is in one of the four."""

    prompt: int
    exact: int
    reused: int
    repaired: int
    prefilled: int
    generated: int

    @property
    def sources(self) -> dict[str, int]:
        """Where the KV came from, in words, with the number of tokens: all but ``prompt`` and ``generated``."""
        return {kind: getattr(self, kind) for kind in ("exact", "reused", "repaired", "prefilled")}


@dataclass(frozen=True, kw_only=True)
class TurnCounts(TokenCounts):
    """The same in a conversation, where the cache may hold documents and earlier turns already: all six sum up."""

    live_documents: int
    live_turns: int

    @property
    def sources(self) -> dict[str, int]:
        """Those of the live cache come first; the documents' are those of all that stands before the first question."""
        live = {"live of documents": self.live_documents, "live of earlier turns": self.live_turns}
        return {**{name: count for name, count in live.items() if count}, **super().sources}


@dataclass(frozen=True)
class Verification:
    """Against full prefill on the same token ids, greedily, teacher-forced over its continuation.

    ``kl_first`` and ``kl_mean`` in nats, full prefill against stitched; ``matched_prefix`` counts the answer's
    leading tokens that equal the reference answer's.
    """

    reference_ttft_s: float
    speedup: float
    kl_first: float
    kl_mean: float
    top1_agreement: float
    matched_prefix: int
    reference_answer: str


@dataclass(frozen=True)
class AskReport:
    """Everything that ``ask --json`` tells; times in seconds.

    ``estimated_reference_s`` is what full prefill would take, if an earlier ask has measured it (see ``speeds``).
    """

    answer: str
    finish_reason: str
    model: str
    device: str
    dtype: str
    documents: tuple[DocumentReport, ...]
    tokens: TokenCounts
    phases: dict[str, float]
    import_s: float
    model_load_s: float
    decode_tokens_per_s: float | None
    strategy: str
    ratio: float | None
    verify: Verification | None
    gate_s: float = 0.0
    estimated_reference_s: float | None = None

    @property
    def ttft_s(self) -> float:
        """Time to first token: the sum of its phases."""
        return sum(self.phases.values())

    @property
    def _estimate(self) -> dict[str, float] | None:
        if self.estimated_reference_s is None:
            return None
        return {
            "reference_ttft_s": self.estimated_reference_s,
            "speedup": self.estimated_reference_s / self.ttft_s,
        }

    def to_json(self) -> dict[str, object]:
        """The object of ``ask --json``."""
        return {
            "answer": self.answer,
            "finish_reason": self.finish_reason,
            "model": self.model,
            "device": self.device,
            "dtype": self.dtype,
            "documents": [asdict(document) for document in self.documents],
            "tokens": asdict(self.tokens),
            "ttft": {"total_s": self.ttft_s, **{phase: self.phases.get(phase, 0.0) for phase in PHASES}},
            "startup": {"import_s": self.import_s, "model_load_s": self.model_load_s, "gate_s": self.gate_s},
            "decode": {"tokens_per_s": self.decode_tokens_per_s},
            "repair": {"strategy": self.strategy, "ratio": self.ratio},
            "estimate": self._estimate,
            "verify": None if self.verify is None else asdict(self.verify),
        }


def count_tokens(plan: StitchPlan, num_repaired: int, num_generated: int) -> TokenCounts:
    """Where the KV of each prompt token came from."""
    num_content = len(plan.positions_with(Hit.CONTENT))
    return TokenCounts(
        prompt=plan.num_tokens,
        exact=len(plan.positions_with(Hit.EXACT)),
        reused=num_content - num_repaired,
        repaired=num_repaired,
        prefilled=len(plan.fresh_positions()) + plan.num_tail_tokens,
        generated=num_generated,
    )
