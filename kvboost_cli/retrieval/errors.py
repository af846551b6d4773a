"""What can go wrong with the search index.

SearchIndexError
├── SearchIndexMissing    opened for reading, and there is no file
├── SearchIndexDamaged    not readable as an index of this version: derived data, so delete it and rebuild
└── SearchIndexBusy       another process held the write lock for longer than the wait
"""


class SearchIndexError(Exception):
    """The search index cannot do what was asked: `reason` is the fact, `path` the index file."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.reason}: {self.path}"


class SearchIndexMissing(SearchIndexError):
    """There is no index file to read."""


class SearchIndexDamaged(SearchIndexError):
    """The file is damaged or of another version; the index can be rebuilt from the documents."""


class SearchIndexBusy(SearchIndexError):
    """Another process kept the index locked."""
