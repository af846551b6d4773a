"""Full-text search over indexed chunks, to pick documents for a question that names none."""

from .connection import remove_index
from .errors import SearchIndexBusy, SearchIndexDamaged, SearchIndexError, SearchIndexMissing
from .hits import Hit, select_documents
from .index import SearchIndex

__all__ = [
    "Hit",
    "SearchIndex",
    "SearchIndexBusy",
    "SearchIndexDamaged",
    "SearchIndexError",
    "SearchIndexMissing",
    "remove_index",
    "select_documents",
]
