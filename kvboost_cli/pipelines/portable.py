"""Names of documents that travel: no folder of the machine that they come from, and no file behind them."""

import os
from dataclasses import replace

from store import DocumentEntry

from .prepare import document_title


def portable(entry: DocumentEntry) -> DocumentEntry:
    """The entry under its folder's name and its path below that folder; one that has no file keeps its name.

    ``/home/me/handbook/on-call.md``, indexed with ``/home/me/handbook``, becomes ``handbook/on-call.md``. Its title in
    prompts stays ``on-call.md``, so its exact KV stays of use.
    """
    if not os.path.isabs(entry.name):
        return entry
    title = document_title(entry.name, entry.root)
    if os.path.isabs(title) or title.split(os.sep)[0] == os.pardir:
        title = os.path.basename(entry.name)
    label = os.path.basename(entry.root.rstrip(os.sep))
    return replace(entry, name=f"{label}/{title}" if label else title, root=label)


def is_plain(name: str) -> bool:
    """Whether a name without a file has no part that could lead out of a folder.

    >>> is_plain("handbook/on-call.md"), is_plain("../secret"), is_plain("a//b")
    (True, False, False)
    """
    return all(part not in ("", os.curdir, os.pardir) for part in name.split(os.sep))
