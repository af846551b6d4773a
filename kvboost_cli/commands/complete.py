"""What the shell offers for TAB: names of stored documents, and the values of settings. Needs no torch.

Whatever goes wrong here goes unsaid: a message would end up in the line that is being typed.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable

import typer

MAX_OFFERED = 500
"""More than anyone looks through; the shell asks before it shows so many."""

Complete = Callable[[str], list[str]]


def choices(*values: str) -> Complete:
    """Offers these values."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def documents(context: typer.Context, incomplete: str) -> list[str]:
    """Offers the stored documents, by the shortest end of their names that means one."""
    from store import ChunkStore, StoreError

    from ..settings import SettingsError
    from . import options

    try:
        store_dir = options.load({"store": context.params.get("store")}).store_dir
        with ChunkStore.open(store_dir, readonly=True) as store, store.snapshot() as snapshot:
            return offer(snapshot.document_names(), incomplete)
    except (SettingsError, StoreError, OSError):
        return []


def offer(names: Iterable[str], incomplete: str) -> list[str]:
    """Ends of names that begin with what was typed, each the shortest that is the end of no other.

    >>> offer(["/a/plans.md", "/a/notes.md", "/b/notes.md"], "")
    ['a/notes.md', 'b/notes.md', 'plans.md']
    >>> offer(["/a/plans.md", "/a/notes.md", "/b/notes.md"], "b/")
    ['b/notes.md']
    """
    ends = {name: _ends(name) for name in names}
    counts = Counter(end for own in ends.values() for end in own)
    found: set[str] = set()
    for name, own in ends.items():
        unique = [end for end in (*own, name) if counts[end] <= 1]
        found.update(next(([end] for end in unique if end.startswith(incomplete)), []))
        if len(found) == MAX_OFFERED:
            break
    return sorted(found)


def _ends(name: str) -> list[str]:
    """The name's ends at each folder, shortest first.

    >>> _ends("/a/b/c.md")
    ['c.md', 'b/c.md', 'a/b/c.md']
    """
    parts = name.split(os.sep)
    return [os.sep.join(parts[start:]) for start in range(len(parts) - 1, 0, -1)]
