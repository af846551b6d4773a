"""What indexing would store, told without a model and without writing: the chunks, their bytes, tokens to compute."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from store import DocumentEntry, file_bytes

from .cost import Cost, RecordSizes
from .prepare import PreparedDocument
from .workspace import Workspace
from .writer import Indexed, Waiting, describe, find_missing, make_entry

NO_KEY = b"\0" * 32


class DocumentPreview:
    """Takes prepared documents as ``DocumentWriter`` does, and tells what that would do.

    Chunks that an earlier document of the same run would have stored count as stored.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._sizes = RecordSizes(workspace.handle.geometry, workspace.recipe, workspace.handle.dtype)
        self._planned: set[bytes] = set()

    def add(self, prepared: PreparedDocument) -> Iterator[Indexed]:
        """The event that storing the document would give, with its cost."""
        missing = find_missing(self._workspace, prepared.keys) - self._planned
        item = Waiting(prepared, missing, (), frozenset())
        self._planned.update(prepared.keys)
        yield describe(self._workspace, item, self._cost(item))

    def flush(self) -> Iterator[Indexed]:
        """Nothing waits."""
        return iter(())

    def _cost(self, item: Waiting) -> Cost:
        runs, keys = item.prepared.runs, item.prepared.keys
        sizes = {key: len(run) for key, run in zip(keys, runs, strict=True)}
        content = [sizes[key] for key in item.missing]
        num_links = self._num_links([len(run) for run in runs])
        exact = [len(run) for run in runs[self._num_stored_links(keys[:num_links]) : num_links]]
        values = [size for tokens in (*content, *exact) for size in self._sizes.of_record(tokens)]
        entry = len(make_entry(item, self._workspace.recipe.digest.hex(), [NO_KEY] * num_links).to_bytes())
        return Cost(sum(content), sum(exact), sum(values) + entry, file_bytes([*values, entry]))

    def _num_links(self, sizes: Sequence[int]) -> int:
        """How many of a document's runs would have exact KV, in the room that the preamble may leave."""
        if not self._workspace.recipe.exact:
            return 0
        total, limit = 0, self._workspace.handle.exact_positions
        for place, size in enumerate(sizes):
            total += size
            if total > limit:
                return place
        return len(sizes)

    def _num_stored_links(self, keys: Sequence[bytes]) -> int:
        """How many links a document's chain shares with one that is stored, or would be by now.

        A link is the same where all runs up to it are, and runs are known by their content keys: so the chat template
        of the preamble need not be rendered, which would import transformers.
        """
        if not keys:
            return 0
        alike = self._chains.setdefault(keys[0], [])
        count = max((_num_equal(keys, chain) for chain in alike), default=0)
        alike.append(keys)  # what this document would have, for those after it
        return count

    @cached_property
    def _chains(self) -> dict[bytes, list[Sequence[bytes]]]:
        """Content keys of the runs that have exact KV, of every document of this recipe, by the first."""
        chains: dict[bytes, list[Sequence[bytes]]] = {}
        with self._workspace.store.snapshot() as snapshot:
            for entry in snapshot.documents():
                if self._has_chain(entry) and not snapshot.missing_positions(entry.position_keys):
                    chains.setdefault(entry.chunk_keys[0], []).append(entry.chunk_keys[: len(entry.position_keys)])
        return chains

    def _has_chain(self, entry: DocumentEntry) -> bool:
        same_recipe = entry.recipe == self._workspace.recipe.digest.hex()
        return same_recipe and bool(entry.chunk_keys and entry.position_keys)


def _num_equal(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
