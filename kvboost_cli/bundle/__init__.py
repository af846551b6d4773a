"""Bundles: documents with their KV as one file, to be carried to another store. docs/bundles.md has the format.

Knows the store's records, not stores: what is written comes from a caller, and what is read goes to one.
"""

from .errors import BundleDamaged, BundleError, BundleOfOtherVersion, NotABundle
from .reader import BundledDocument, BundleReader, starts_as_bundle
from .writer import BundleWriter

__all__ = [
    "BundleDamaged",
    "BundleError",
    "BundleOfOtherVersion",
    "BundleReader",
    "BundleWriter",
    "BundledDocument",
    "NotABundle",
    "starts_as_bundle",
]
