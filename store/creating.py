"""Making a store's files where there are none."""

from pathlib import Path

from .environment import Environment, open_environment
from .marker import write_marker
from .names import IDENTITY_KEY
from .records import StoreIdentity


def found_environment(directory: Path, identity: StoreIdentity, map_bytes: int) -> Environment:
    """A new store's environment; the marker is written last. The caller holds the writer lock."""
    environment = open_environment(directory, writable=True, create=True, map_bytes=map_bytes)
    try:
        environment.write(lambda txn: txn.put("meta", IDENTITY_KEY, identity.to_bytes()))
        write_marker(directory)
    except BaseException:
        environment.release()
        raise
    return environment
