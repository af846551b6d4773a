"""Names that are recognized and cannot be read: those of forgotten documents."""

from blake3 import blake3


def name_digest(name: str) -> str:
    """What is kept of a forgotten document's name, so that it is left out as long as nobody names it."""
    return str(blake3(name.encode("utf-8", "surrogatepass")).hexdigest())
