"""The second half of ``prewarm``: exact KV for the orders that are asked most.

The chain of a prompt goes on behind its first document: if the records of the others are there, behind the same
documents as in the prompt, then all of it is exact. What is wanted is found without a model, from stored token ids.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from store import (
    ChainedDocument,
    ChainEntry,
    ChunkRecord,
    DocumentEntry,
    MissingChunk,
    Snapshot,
    drop_chains,
    list_asks,
    put_chain,
)

from .demand import AskedPart, Demand, rank_orders
from .prepare import ChainLink, document_title, preamble_key
from .prompt import header_ids
from .refreshing import Deadline
from .workspace import Workspace

if TYPE_CHECKING:
    from .encoding import Encoder

Runs = tuple[tuple[int, ...], ...]
"""A document's token ids in a prompt, one run for each record, the first with the header."""


@dataclass(frozen=True)
class OrderChain:
    """What an order needs: ``entry`` as the store keeps it, and the links of it that are ``missing`` now.

    ``documents`` are the entries that the links were made from.
    """

    demand: Demand
    entry: ChainEntry
    preamble: tuple[int, ...]
    links: tuple[ChainLink, ...]
    documents: tuple[DocumentEntry, ...]
    missing: frozenset[bytes]

    @property
    def num_tokens(self) -> int:
        """Tokens that have to be run for it, the preamble left out."""
        return sum(len(link.token_ids) for link in self.links)


@dataclass(frozen=True)
class ChainPlan:
    """Orders ``to_make`` exact, most wanted first, those that are ``made``, and keys of chains to be dropped."""

    to_make: tuple[OrderChain, ...]
    made: tuple[OrderChain, ...]
    dropped: tuple[bytes, ...]


def plan_chains(workspace: Workspace, top: int) -> ChainPlan:
    """What the ``top`` orders need that are asked most; a document that is exact by itself does not count."""
    asks = list_asks(workspace.store)
    with workspace.store.snapshot() as snapshot:
        chosen = _choose(_resolved(workspace, snapshot, rank_orders(asks)), top)
        stored = [chain.key for chain in snapshot.chains()]
    wanted = {chain.entry.key for chain in chosen}
    to_make = tuple(chain for chain in chosen if chain.missing or chain.entry.key not in stored)
    made = tuple(chain for chain in chosen if chain not in to_make)
    return ChainPlan(to_make, made, tuple(key for key in stored if key not in wanted))


def _choose(chains: Iterator[OrderChain], top: int) -> list[OrderChain]:
    """The first ``top`` chains; one that another begins with is taken together with it."""
    chosen: list[OrderChain] = []
    for chain in chains:
        keys = set(chain.entry.position_keys)
        if any(chain.entry.position_keys[-1] in other.entry.position_keys for other in chosen):
            continue
        shorter = [place for place, other in enumerate(chosen) if other.entry.position_keys[-1] in keys]
        if shorter:
            chosen[shorter[0]] = chain
            chosen = [other for place, other in enumerate(chosen) if place not in shorter[1:]]
        elif len(chosen) < top:
            chosen.append(chain)
        else:
            break
    return chosen


def _resolved(workspace: Workspace, snapshot: Snapshot, demands: Sequence[Demand]) -> Iterator[OrderChain]:
    for demand in demands:
        preamble = _preamble_ids(workspace, snapshot, demand.order.preamble)
        chain = None if preamble is None else _resolve(workspace, snapshot, demand, preamble)
        if chain is not None and not _is_own_chain(chain):
            yield chain


def _preamble_ids(workspace: Workspace, snapshot: Snapshot, key: bytes) -> tuple[int, ...] | None:
    """The tokens of a stored preamble, or of one that is empty; None for one that is not stored.

    A preamble of another rotary variant has no exact KV but its own.
    """
    header = snapshot.position_header(key)
    ids = () if header is None else tuple(header.token_ids)
    return ids if preamble_key(workspace.handle.fingerprint, ids, rope_variant=0) == key else None


def _resolve(workspace: Workspace, snapshot: Snapshot, demand: Demand, preamble: tuple[int, ...]) -> OrderChain | None:
    """The chain of an order as far as its documents are stored as they were asked, within the model's context."""
    documents: list[DocumentEntry] = []
    parts: list[ChainedDocument] = []
    links: list[ChainLink] = []
    room = workspace.handle.exact_positions - len(preamble)
    for part in demand.order.parts:
        entry = snapshot.document(part.name)
        runs = None if entry is None else _runs(workspace, snapshot, entry, part, demand.last_at)
        if entry is None or not runs:
            break
        parent = links[-1].key if links else demand.order.preamble
        fitting = _fitting(tuple(workspace.keys.chain(parent, [runs])), room)
        if fitting:
            documents.append(entry)
            parts.append(ChainedDocument(part.name, len(fitting)))
            links.extend(fitting)
            room -= sum(len(link.token_ids) for link in fitting)
        if len(fitting) < len(runs):
            break
    if not links:
        return None
    keys = tuple(link.key for link in links)
    missing = frozenset(snapshot.lost(keys))  # what gave way to others stays away
    chained = ChainEntry(demand.order.preamble, tuple(parts), keys)
    return OrderChain(demand, chained, preamble, tuple(links), tuple(documents), missing)


def _fitting(links: Sequence[ChainLink], room: int) -> list[ChainLink]:
    """The first links that have room."""
    fitting = []
    for link in links:
        room -= len(link.token_ids)
        if room < 0:
            break
        fitting.append(link)
    return fitting


def _runs(
    workspace: Workspace, snapshot: Snapshot, entry: DocumentEntry, part: AskedPart, asked_at: float
) -> Runs | None:
    """The document as the prompt has it; None if it is not whole, or is an excerpt of a text that has changed since."""
    if entry.recipe != workspace.recipe.digest.hex() or (part.places is not None and entry.indexed_at > asked_at):
        return None
    places = range(len(entry.chunk_keys)) if part.places is None else part.places
    if not all(place < len(entry.chunk_keys) for place in places):
        return None
    stored = [snapshot.token_ids(entry.chunk_keys[place]) for place in places]
    runs = [token_ids for token_ids in stored if token_ids is not None]
    if len(runs) < len(stored):
        return None
    if runs and places[0]:  # the record of the document's first chunk alone has its header
        runs[0] = (*header_ids(workspace.handle.codec, document_title(entry.name, entry.root)), *runs[0])
    return tuple(runs)


def _is_own_chain(chain: OrderChain) -> bool:
    """Whether this is what ``index`` keeps of a document anyway."""
    (entry, *others) = chain.documents
    keys = chain.entry.position_keys
    return not others and keys == entry.position_keys[: len(keys)] and not chain.missing


@dataclass(frozen=True)
class MadeChains:
    """What was done so far: of ``num_tried`` orders ``num_made`` are exact now, by running ``num_tokens``.

    ``is_complete`` is false if the time was over before all was done.
    """

    num_tried: int = 0
    num_made: int = 0
    num_tokens: int = 0
    num_bytes: int = 0
    num_dropped: int = 0
    seconds: float = 0.0
    is_complete: bool = True


def make_chains(workspace: Workspace, plan: ChainPlan, deadline: Deadline) -> Iterator[MadeChains]:
    """Make the plan's orders exact, most wanted first; yields what was done, after each and at the end.

    What nobody wants any more is dropped at the end, so that made chains keep what they share with it. The caller holds
    the store's writer lock.
    """
    started, made = perf_counter(), MadeChains()
    encoders: dict[bytes, Encoder] = {}
    for chain in plan.to_make:
        if deadline.is_over:
            break
        made = _with_chain(workspace, chain, encoders, made)
        yield replace(made, seconds=perf_counter() - started)
    is_complete = made.num_tried == len(plan.to_make) and not deadline.is_over
    if is_complete:
        drop_chains(workspace.store, plan.dropped)
        made = replace(made, num_dropped=len(plan.dropped))
    yield replace(made, seconds=perf_counter() - started, is_complete=is_complete)


def _with_chain(
    workspace: Workspace, chain: OrderChain, encoders: dict[bytes, "Encoder"], made: MadeChains
) -> MadeChains:
    """Compute and store a chain; the model is loaded with the first one, and each preamble is run once.

    All of it is run: stored KV is quantized, and what is made behind that would not be exact.
    """
    made = replace(made, num_tried=made.num_tried + 1)
    with workspace.store.snapshot() as snapshot:
        missing = frozenset(snapshot.missing_positions(chain.entry.position_keys))
    records: list[ChunkRecord] = []
    if missing:
        key = chain.entry.preamble
        encoders[key] = encoders.get(key) or workspace.make_chain_encoder(chain.preamble)
        records = [record for batch in encoders[key].encode_chain(chain.links, missing) for record in batch]
    try:
        num_bytes = put_chain(workspace.store, chain.entry, chain.documents, records)
    except MissingChunk:  # dropped since we looked, with a document that had it
        num_bytes = None
    if num_bytes is None:  # a document has changed meanwhile: the next run finds that
        return made
    num_tokens = made.num_tokens + (chain.num_tokens if missing else 0)
    return replace(made, num_made=made.num_made + 1, num_tokens=num_tokens, num_bytes=made.num_bytes + num_bytes)
