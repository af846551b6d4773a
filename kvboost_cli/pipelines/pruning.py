"""What a store holds for nothing: documents whose files are gone, records of earlier settings, what no document names.

A folder that is missing as a whole, or empty, may be a disk that is not mounted: its documents stay unless the caller
says otherwise.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from store import ChunkStore, Extent, extent_of, prune_orphans, remove_documents, shed_records

from .upkeep import drop_from_search


@dataclass(frozen=True)
class PrunePlan:
    """Names of documents that are ``gone`` and to be removed, and of those that were made with other settings.

    ``missing_roots`` tells how many documents stay although they are gone, by the folder that is missing.
    """

    gone: tuple[str, ...]
    superseded: tuple[str, ...]
    missing_roots: Mapping[str, int]


@dataclass(frozen=True)
class Pruned:
    """What was dropped: records (with their bytes) of the plan's documents and those that no document names."""

    plan: PrunePlan
    records: Extent
    orphans: Extent
    num_usage: int


def plan_prune(store: ChunkStore, *, with_missing_roots: bool = False) -> PrunePlan:
    """Look at the file of each document; ``with_missing_roots`` takes those whose whole folder is missing, too."""
    is_missing = cache(root_is_missing)
    gone, superseded, missing = [], [], Counter[str]()
    recipe = store.identity.recipe.hex()
    with store.snapshot() as snapshot:
        for entry in snapshot.documents():
            if os.path.isabs(entry.name) and is_gone(entry.name):
                if not with_missing_roots and is_missing(entry.root):
                    missing[entry.root] += 1
                else:
                    gone.append(entry.name)
                    continue
            if entry.recipe != recipe and (entry.chunk_keys or entry.position_keys):
                superseded.append(entry.name)
    return PrunePlan(tuple(gone), tuple(superseded), dict(missing))


def prune(
    store: ChunkStore, plan: PrunePlan, *, dry_run: bool = False, on_look: Callable[[int], None] = lambda _: None
) -> Pruned:
    """Do what was planned, and drop what no document names; the caller holds the writer lock, unless ``dry_run``.

    A document of other settings stays, without records: it is encoded anew when it is next indexed or asked about.
    All records are looked at, by the hundred thousand: ``on_look`` is told how many more were seen.
    """
    records = extent_of(store, {*plan.gone, *plan.superseded})
    if not dry_run:
        remove_documents(store, plan.gone)
        drop_from_search(store, plan.gone)
        shed_records(store, plan.superseded)
    orphans, num_usage = prune_orphans(store, dry_run=dry_run, on_look=on_look)
    return Pruned(plan, records, orphans, num_usage)


def is_gone(name: str) -> bool:
    """Whether there is no such file any more; of one that the system denies nothing is known, and it is not gone."""
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return not stat.S_ISREG(mode)


def root_is_missing(root: str) -> bool:
    """Whether a folder is not there, is empty as the place of a disk that is not mounted, or cannot be read."""
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is None
    except OSError:
        return True
