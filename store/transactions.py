"""Reads and writes within one transaction, by the name of a database.

LMDB's own transactions and databases pass through here as `Any`, so that only `environment` imports lmdb.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import StoreClosed
from .keys import KEY_BYTES

DATABASES = ("meta", "chunks", "positions", "documents", "usage", "asks", "refs", "position_refs")
_BEHIND_LAYERS = b"\xff\xff\xff"
"""Longer than a layer's number, and not less than any."""


class ReadTransaction:
    """Reads of one consistent state. Views point into the map and end with the transaction."""

    def __init__(self, raw: Any, databases: Mapping[str, Any]) -> None:
        self._txn = raw
        self._databases = databases

    def get(self, database: str, key: bytes) -> memoryview | None:
        """The value under `key`, not copied, or None."""
        view: memoryview | None = self._raw.get(key, db=self._databases[database])
        return view

    def scan(self, database: str, prefix: bytes = b"", start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Keys from `start` on that begin with `prefix`, in order, with their values; write nothing meanwhile."""
        cursor = self._raw.cursor(self._databases[database])
        found = cursor.set_range(max(prefix, start))
        while found and bytes(cursor.key()).startswith(prefix):
            yield bytes(cursor.key()), cursor.value()
            found = self._raw is not None and cursor.next()  # raises if the transaction ended meanwhile

    def record_keys(self, database: str, start: bytes = b"", end: bytes | None = None) -> Iterator[bytes]:
        """The key of each record from `start` on and before `end`, in order; its layers are jumped over."""
        found = self.first_key(database, start)
        while found is not None and (end is None or found < end):
            key = found[:KEY_BYTES]
            yield key
            found = self.first_key(database, key + _BEHIND_LAYERS)

    def first_key(self, database: str, start: bytes) -> bytes | None:
        """The first key from `start` on; None if there is none. Its value is not looked at."""
        cursor = self._raw.cursor(self._databases[database])
        return bytes(cursor.key()) if cursor.set_range(start) else None

    def last_key(self, database: str) -> bytes | None:
        """The greatest key, or None if the database is empty."""
        cursor = self._raw.cursor(self._databases[database])
        return bytes(cursor.key()) if cursor.last() else None

    def num_entries(self, database: str) -> int:
        """How many keys the database holds."""
        return int(self._raw.stat(self._databases[database])["entries"])

    def live_bytes(self) -> int:
        """Bytes of the pages that hold data, over all databases."""
        stats = [self._raw.stat(database) for database in self._databases.values()]
        return sum(s["psize"] * (s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"]) for s in stats)

    def end(self) -> None:
        """From here on every use raises StoreClosed; called by the owner when the transaction is over."""
        self._txn = None

    @property
    def _raw(self) -> Any:
        if self._txn is None:
            raise StoreClosed("a snapshot after its end")
        return self._txn


class WriteTransaction(ReadTransaction):
    """Reads and writes, all or nothing. A view is valid only until the next write."""

    def put(self, database: str, key: bytes, value: bytes | memoryview) -> None:
        """Stores `value` under `key`, over what was there."""
        self._raw.put(key, value, db=self._databases[database])

    def delete(self, database: str, key: bytes) -> bool:
        """Removes `key`; False if it was not there."""
        return bool(self._raw.delete(key, db=self._databases[database]))

    def delete_prefix(self, database: str, prefix: bytes) -> None:
        """Removes every key that begins with `prefix`."""
        for key in [key for key, _ in self.scan(database, prefix)]:
            self.delete(database, key)

    def clear(self, database: str) -> None:
        """Removes every key."""
        self._raw.drop(self._databases[database], delete=False)
