"""The history of asks as `kvboost history` shows it; how an ask is kept is told in `asks`."""

from .asks import add_to_totals, parse_ask
from .chunks import ChunkStore
from .records import AskEntry
from .transactions import WriteTransaction


def list_asks(store: ChunkStore) -> list[AskEntry]:
    """The kept asks, the latest first; a damaged one is left out."""
    with store._environment.read() as txn:
        asks = [ask for _, data in txn.scan("asks") for ask in parse_ask(data)]
    return asks[::-1]


def count_ask(store: ChunkStore, ask: AskEntry) -> None:
    """Adds an ask to the sums that `stats` shows, and keeps nothing else of it."""
    store._write(lambda txn: add_to_totals(txn, [ask]))


def clear_asks(store: ChunkStore) -> int:
    """Removes every kept ask, sound or not, and returns how many; the sums over them stay."""
    return store._write(_clear)


def _clear(txn: WriteTransaction) -> int:
    num_asks = txn.num_entries("asks")
    add_to_totals(txn, [ask for _, data in txn.scan("asks") for ask in parse_ask(data)])
    txn.clear("asks")
    return num_asks
