"""What ``kvboost chat`` tells beside its answers, all of it on stderr."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .. import console
from . import ask_output

if TYPE_CHECKING:
    from ..pipelines.asked import AskedDocument
    from ..pipelines.conversation import Conversation, Turn
    from ..pipelines.report import AskReport

SHOWN: "Mapping[str, Callable[[AskReport], None]]" = {
    "full": lambda report: ask_output.show_full(report, unknown="`kvboost ask --verify` tells it"),
    "line": lambda report: ask_output.show_line(report, unknown=""),
    "none": ask_output.show_nothing,
}


def say_documents(conversation: "Conversation") -> None:
    """The documents in prompt order, with what the last stitching found of them in the store."""
    if not conversation.documents:
        console.say("no documents: the search chooses some for the next question; `/add DOC` names one")
        return
    hits = _hits(conversation)
    rows = [
        (f"{number}", _title(document), f"{document.num_tokens:,}", hits.get(document.name, "not yet"))
        for number, document in enumerate(conversation.documents, 1)
    ]
    console.render_table("", ("", "document", "tokens", "hit"), rows)
    if conversation.is_searched:
        console.say_wrapped("chosen by the search for the first question")
    if conversation.live is None and conversation.turns:
        console.say_wrapped("stitched anew at the next question")


def _hits(conversation: "Conversation") -> dict[str, str]:
    live = conversation.live
    if live is None:
        return {}
    from ..pipelines.finishing import document_reports

    return {told.path: told.hit for told in document_reports(live.stitched)}


def _title(document: "AskedDocument") -> str:
    """The document's name; of an excerpt, how much of it."""
    if len(document.chunks) == document.num_chunks:
        return document.title
    return f"{document.title} ({len(document.chunks)} of {document.num_chunks} chunks)"


def say_figures(conversation: "Conversation", max_positions: int) -> None:
    """How full the cache is, and what each turn took."""
    live = conversation.live
    held, front = (0, 0) if live is None else (len(live.token_ids), live.num_front_tokens)
    console.say_wrapped(
        f"in the live cache: {held:,} of the context's {max_positions:,} tokens; "
        f"documents {front:,}, turns {held - front:,}"
    )
    if conversation.turns:
        columns = ("turn", "ms", "live", "stored", "new", "out")  # short, so that they fit a narrow terminal
        console.render_table("", columns, [_row(i, turn) for i, turn in enumerate(conversation.turns, 1)])
        console.say_wrapped(
            "ms to the first token; of the prompt's tokens, live: already in the cache, stored: as the store had them, "
            "new: computed for this turn; out: tokens of the answer"
        )


def _row(number: int, turn: "Turn") -> tuple[str, ...]:
    tokens = turn.report.tokens
    stored, computed = tokens.exact + tokens.reused, tokens.repaired + tokens.prefilled
    counts = (tokens.prompt - stored - computed, stored, computed, tokens.generated)
    return (str(number), f"{turn.report.ttft_s * ask_output.MILLISECONDS:,.0f}", *(f"{count:,}" for count in counts))


def say_welcome(conversation: "Conversation") -> None:
    """How to begin."""
    num_tokens = sum(document.num_tokens for document in conversation.documents)
    count = len(conversation.documents)
    about = f"{count} document{'s' * (count != 1)} of {num_tokens:,} tokens" if count else "no documents yet"
    console.say_wrapped(f"{about}; /help lists the commands, Ctrl-D leaves")
