"""A stand: one task's prompts, their documents in files, and throwaway stores in which these are indexed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ..documents import Skipped
from ..model.codec import TextCodec
from ..pipelines.indexing import IndexRequest, index_documents
from ..pipelines.workspace import Workspace
from ..pipelines.writer import Indexed
from .common import BenchModel, throwaway_workspace
from .errors import DocumentsNotStored
from .tasks import TaskPrompt
from .variants import Variant

ALONE_CONTEXTS = 0
"""The recipe's setting for chunks that are encoded with nothing before them."""


@dataclass(frozen=True)
class Stand:
    """A task's prompts with their documents in files, and the stores for them: by whether chunks are encoded alone.

    ``order`` is how an ask orders the documents.
    """

    prompts: Sequence[TaskPrompt]
    folder: Path
    workspaces: Mapping[bool, Workspace]
    variants: Sequence[Variant]
    order: str = "given"

    def paths(self, number: int) -> list[str]:
        """The documents of a prompt, as an ask names them."""
        return [str(self._prompt_folder(number) / document.name) for document in self.prompts[number].documents]

    @property
    def codec(self) -> TextCodec:
        """The model's tokenizer."""
        return next(iter(self.workspaces.values())).handle.codec

    @property
    def folders(self) -> list[str]:
        """One folder of documents per prompt, so that a document is named as in its prompt."""
        return [str(self._prompt_folder(number)) for number in range(len(self.prompts))]

    @property
    def num_to_index(self) -> int:
        """How many documents have to be indexed, over all stores."""
        return len(self.workspaces) * sum(len(prompt.documents) for prompt in self.prompts)

    def write_documents(self) -> None:
        """Write the prompts' documents below ``folder``."""
        for number, prompt in enumerate(self.prompts):
            self._prompt_folder(number).mkdir()
            for document in prompt.documents:
                (self._prompt_folder(number) / document.name).write_text(document.text, encoding="utf-8")

    def _prompt_folder(self, number: int) -> Path:
        return self.folder / f"{number:03d}"


@contextmanager
def open_stand(
    prompts: Sequence[TaskPrompt], variants: Sequence[Variant], bench: BenchModel, order: str = "given"
) -> Iterator[Stand]:
    """Write a task's documents and open the stores that the variants need; all is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kvboost-bench-")))
        workspaces = {}
        for alone in sorted({variant.alone for variant in variants}):
            encoded = replace(bench, contexts=ALONE_CONTEXTS, exact=False) if alone else bench
            workspaces[alone] = stack.enter_context(throwaway_workspace(encoded))
        stand = Stand(prompts, folder, workspaces, variants, order)
        stand.write_documents()
        yield stand


def index_stand(stand: Stand) -> Iterator[Indexed]:
    """Index the documents into every store. Raises ``DocumentsNotStored``."""
    for workspace in stand.workspaces.values():
        with workspace.store.writer_lock():
            for event in index_documents(workspace, IndexRequest(stand.folders)):
                if isinstance(event, Skipped):
                    raise DocumentsNotStored(
                        f"a document of the benchmark was not indexed, {event.reason}: {event.path}"
                    )
                if isinstance(event, Indexed):
                    yield event
