"""What an index run will take, told before it: its cost, and its time as earlier runs on this machine went."""

from dataclasses import asdict, dataclass

from .cost import Cost
from .errors import NoDocuments
from .indexing import IndexRequest, index_documents
from .speeds import estimate_index_s, index_work, read_speeds
from .workspace import Workspace
from .writer import Indexed


@dataclass(frozen=True)
class Outlook:
    """``seconds`` is None where nothing was indexed yet; ``stored_bytes`` are live in the store's file now."""

    cost: Cost
    seconds: float | None
    stored_bytes: int

    def to_json(self) -> dict[str, object]:
        """The object of ``plan --json`` and ``index --dry-run --json``."""
        return {**asdict(self.cost), "seconds": self.seconds, "stored_bytes": self.stored_bytes}


def foresee(workspace: Workspace, cost: Cost) -> Outlook:
    """What storing at this cost will take in this store."""
    work = index_work(cost.content_tokens, cost.exact_tokens, workspace.recipe.contexts)
    seconds = estimate_index_s(read_speeds(workspace.store), work)
    return Outlook(cost, seconds, workspace.store.stats().live_bytes)


@dataclass(frozen=True)
class Collection:
    """Documents that were looked through, and what storing them takes."""

    num_documents: int
    num_tokens: int
    outlook: Outlook

    @property
    def document_tokens(self) -> float:
        """Tokens of a document, on average."""
        return self.num_tokens / self.num_documents

    def to_json(self) -> dict[str, object]:
        """As in ``plan --json``."""
        return {"documents": self.num_documents, "tokens": self.num_tokens, "planned": self.outlook.to_json()}


def look_through(workspace: Workspace, request: IndexRequest) -> Collection:
    """A dry run over documents; raises ``NoDocuments`` if there are none."""
    cost, sizes = Cost(), []
    for event in index_documents(workspace, request):
        if isinstance(event, Indexed):
            cost = cost.plus(event.cost)
            sizes.append(event.num_tokens)
    if not sizes:
        raise NoDocuments("no document was found under the given paths")
    return Collection(len(sizes), sum(sizes), foresee(workspace, cost))
