"""Keys of what is found by name: documents and metadata."""

from blake3 import blake3

IDENTITY_KEY = b"store/identity"
ASK_TOTALS_KEY = b"store/ask-totals"
CHAIN_PREFIX = b"store/chain/"
BUDGET_KEY = b"store/budget"
EVICTED_KEY = b"store/evicted"
PIN_PREFIX = b"pin/"
_META_PREFIX = b"meta/"
_LONGEST_KEY = 511


def document_key(name: str) -> bytes:
    """The key of a document: its name as UTF-8, surrogates passed through; a long one is cut and hashed.

    >>> document_key("/notes/a.md")
    b'/notes/a.md'
    >>> len(document_key("a" * 2000))
    511
    """
    return _fit(name.encode("utf-8", "surrogatepass"))


def meta_key(name: str) -> bytes:
    """The key of a piece of metadata, apart from the store's own.

    >>> meta_key("fidelity")
    b'meta/fidelity'
    """
    return _fit(_META_PREFIX + name.encode("utf-8", "surrogatepass"))


def pin_key(name: str) -> bytes:
    """The key, among metadata, of a document's pin.

    >>> pin_key("/notes/a.md")
    b'pin//notes/a.md'
    """
    return _fit(PIN_PREFIX + name.encode("utf-8", "surrogatepass"))


def meta_name(key: bytes) -> str | None:
    """The name that `meta_key` was given, as far as it is plain and short; None for what no name has.

    >>> meta_name(b"meta/fidelity")
    'fidelity'
    """
    if not key.startswith(_META_PREFIX):
        return None
    return key.removeprefix(_META_PREFIX).decode("utf-8", "replace")


def _fit(key: bytes) -> bytes:
    """`key` if shorter than LMDB's longest; else exactly that long, its beginning and a hash of the whole."""
    if len(key) < _LONGEST_KEY:
        return key
    digest = blake3(key).digest()
    return key[: _LONGEST_KEY - len(digest)] + digest
