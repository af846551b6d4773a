"""The search index: BM25 over chunk texts in SQLite's FTS5, kept up to date document by document.

It is derived data. The caller compares `document_hashes` with its store, and rebuilds after SearchIndexDamaged.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .connection import connect, transaction, translated
from .errors import SearchIndexBusy, SearchIndexDamaged
from .hits import Hit
from .terms import indexable, match_expression

# A chunk's row id is its document's id and, in so many low bits, its index: the two tables need no third.
_INDEX_BITS = 24
_WAIT_S = 30.0

_SEARCH = f"""
SELECT documents.name, chunks.rowid & {(1 << _INDEX_BITS) - 1} AS chunk_index, -bm25(chunks) AS score
FROM chunks CROSS JOIN documents ON documents.id = chunks.rowid >> {_INDEX_BITS}
WHERE chunks MATCH ? ORDER BY score DESC, documents.name, chunk_index LIMIT ?
"""


class SearchIndex:
    """An open index file. One process may write while others read; a writer waits for another up to `wait_s`."""

    def __init__(self, path: str | Path, *, readonly: bool = False, wait_s: float = _WAIT_S) -> None:
        """Open or create the file. Raises SearchIndexMissing, SearchIndexDamaged, SearchIndexBusy."""
        self.path = Path(path)
        self._readonly = readonly
        self._database = connect(self.path, readonly=readonly, wait_s=wait_s)

    def replace_document(self, name: str, content_hash: str, chunk_texts: Sequence[str]) -> None:
        """Put a document's chunks in the place of those that it had, in one transaction."""
        with translated(self.path), transaction(self._database):
            self._delete(name)
            cursor = self._database.execute(
                "INSERT INTO documents (name, content_hash) VALUES (?, ?)", (_encode(name), content_hash)
            )
            first = _first_row(cursor.lastrowid)
            rows = ((first + index, indexable(text)) for index, text in enumerate(chunk_texts))
            self._database.executemany("INSERT INTO chunks (rowid, body) VALUES (?, ?)", rows)

    def remove_document(self, name: str) -> None:
        """Forget a document; one that is not there is no error."""
        with translated(self.path), transaction(self._database):
            self._delete(name)

    def document_hashes(self) -> dict[str, str]:
        """Return each document's name and the content hash it was indexed under, by name."""
        with translated(self.path):
            rows = self._database.execute("SELECT name, content_hash FROM documents ORDER BY name")
            return {_decode(name): str(content_hash) for name, content_hash in rows}

    def search(self, question: str, limit: int) -> list[Hit]:
        """Return at most `limit` chunks that share terms with any text, best first; ties by name and index."""
        expression = match_expression(question)
        if expression is None or limit <= 0:
            return []
        with translated(self.path):
            rows = self._database.execute(_SEARCH, (expression, limit))
            return [Hit(_decode(name), chunk_index, score) for name, chunk_index, score in rows]

    def check(self) -> None:
        """Look through the whole file, and if it may be written the words' index, too. Raises SearchIndexDamaged."""
        with translated(self.path):
            (verdict,) = self._database.execute("PRAGMA integrity_check(1)").fetchone()
            if not self._readonly:
                self._database.execute("INSERT INTO chunks (chunks) VALUES ('integrity-check')")
        if verdict != "ok":
            raise SearchIndexDamaged(f"a damaged search index, {verdict}", str(self.path))

    def compact(self) -> None:
        """Rewrite the file without what was removed: no word of it is left. Raises SearchIndexBusy."""
        with translated(self.path):
            self._database.execute("INSERT INTO chunks (chunks) VALUES ('optimize')")
            self._database.execute("VACUUM")
            (is_busy, *_) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise SearchIndexBusy("the search index is read by another process, and keeps removed text", str(self.path))

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        with translated(self.path):
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _delete(self, name: str) -> None:
        row = self._database.execute("SELECT id FROM documents WHERE name = ?", (_encode(name),)).fetchone()
        if row is None:
            return
        first = _first_row(row[0])
        last = first + (1 << _INDEX_BITS) - 1
        self._database.execute("DELETE FROM chunks WHERE rowid BETWEEN ? AND ?", (first, last))
        self._database.execute("DELETE FROM documents WHERE id = ?", row)


def _first_row(document_id: int | None) -> int:
    assert document_id is not None, "an inserted document has a row id"
    return document_id << _INDEX_BITS


def _encode(name: str) -> bytes:
    """Paths may hold bytes that are no text; Python keeps them as lone surrogates."""
    return name.encode("utf-8", "surrogatepass")


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")
