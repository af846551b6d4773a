"""A conversation as data: its documents, its turns, and the live cache. Needs no torch; ``talking`` takes the turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .asked import AskedDocument

if TYPE_CHECKING:
    from .live import LiveCache
    from .report import AskReport


@dataclass(frozen=True)
class Turn:
    """A question and its answer, as token ids: the answer's are those that the model generated."""

    question_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    answer: str
    report: "AskReport"


@dataclass(frozen=True)
class Conversation:
    """Documents in prompt order, turns, and the live cache if it holds them.

    Without documents the search chooses some for the next question, and ``is_searched`` tells that it did.
    ``is_ordered`` when the user has set the order: it then stays as it is.
    """

    documents: tuple[AskedDocument, ...] = ()
    is_searched: bool = False
    is_ordered: bool = False
    turns: tuple[Turn, ...] = ()
    live: "LiveCache | None" = None

    def with_documents(self, documents: Sequence[AskedDocument], *, is_ordered: bool = False) -> "Conversation":
        """Other documents, or another order: to be stitched at the next question, with all turns behind them."""
        return Conversation(tuple(documents), False, is_ordered or self.is_ordered, self.turns)

    def start_over(self) -> "Conversation":
        """No turns. Documents that were named stay; those that the search chose are chosen anew."""
        return Conversation(() if self.is_searched else self.documents, False, self.is_ordered)
