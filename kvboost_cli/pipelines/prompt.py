"""The wording around documents and questions, spliced from token ids and never tokenized twice."""

from ..model.codec import TextCodec

GENERIC_HEADER = "\n\nDocument\n\n"
"""Stands before the fillers that a document is encoded behind; in a prompt a document's name follows."""


def header_text(title: str) -> str:
    """The line that names a document in the prompt."""
    return f"\n\nDocument {' '.join(title.split())}\n\n"


def header_ids(codec: TextCodec, title: str) -> tuple[int, ...]:
    """Token ids of a document's header."""
    return codec.token_ids(header_text(title))


def tail_ids(codec: TextCodec, question: str, closing: tuple[int, ...]) -> tuple[int, ...]:
    """Token ids of the question and what closes the prompt."""
    return codec.token_ids(f"\n\nQuestion: {question.strip()}") + closing


def question_ids(codec: TextCodec, question: str, *, is_first: bool) -> tuple[int, ...]:
    """Token ids of a conversation's question: the first stands behind documents, later ones in turns of their own."""
    if is_first or not codec.has_template:
        return tail_ids(codec, question, ())
    return codec.token_ids(question.strip())
