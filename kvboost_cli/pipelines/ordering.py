"""The order of documents in a prompt: as they were given, by score, or so that most of it is exact.

An order is a function ``(workspace, prompt, question) -> places``: the numbers of the prompt's documents, rearranged.
The names are those of ``--order``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..retrieval import select_documents
from .asked import MAX_HITS
from .lookup import Prompt, find_chain
from .prepare import preamble_key
from .workspace import Workspace

Order = Callable[[Workspace, Prompt, str], Sequence[int]]


def order_prompt(workspace: Workspace, prompt: Prompt, question: str, order: str) -> Prompt:
    """The prompt with its documents in the order of that name."""
    places = ORDERS[order](workspace, prompt, question)
    documents = tuple(prompt.documents[place] for place in places)
    return replace(prompt, documents=documents, headers=tuple(prompt.headers[place] for place in places))


def given(_workspace: Workspace, prompt: Prompt, _question: str) -> Sequence[int]:
    """As the documents were named, or as the search found them."""
    return range(len(prompt.documents))


def score(workspace: Workspace, prompt: Prompt, question: str) -> Sequence[int]:
    """By BM25, best first; documents that the search does not find stay in their order behind the others."""
    hits = workspace.search.search(question, limit=MAX_HITS)
    ranks = {name: rank for rank, name in enumerate(select_documents(hits, len(hits)))}
    names = [document.name for document in prompt.documents]
    return sorted(range(len(names)), key=lambda place: ranks.get(names[place], len(ranks)))


def exact(workspace: Workspace, prompt: Prompt, _question: str) -> Sequence[int]:
    """The document that is exact for the most tokens when it stands first, then the others as given."""
    variant = workspace.handle.loaded.rope_variant(len(prompt.token_ids))
    parent = preamble_key(workspace.handle.fingerprint, prompt.preamble, variant)
    with workspace.store.snapshot() as snapshot:
        chains = [find_chain(snapshot, workspace.keys, parent, [runs], damaged=()) for runs in prompt.positional_runs]
    num_exact = [sum(record.header.num_tokens for record in chain) for chain in chains]
    first = num_exact.index(max(num_exact))
    return [first, *(place for place in range(len(chains)) if place != first)]


ORDERS: dict[str, Order] = {"given": given, "score": score, "exact": exact}
"""By the name that ``--order`` takes."""
