"""What can be wrong with a bundle.

BundleError
├── NotABundle              the file is something else
├── BundleOfOtherVersion    a newer kvboost wrote it
└── BundleDamaged           cut short, changed, or contradicting itself
"""


class BundleError(Exception):
    """Root of this package's errors."""


class NotABundle(BundleError):
    """The file does not begin as a bundle does."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this is not a kvboost bundle: {name}")


class BundleOfOtherVersion(BundleError):
    """The format is not known here."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(f"the bundle {name} has an unknown format version: {version}")


class BundleDamaged(BundleError):
    """Nothing of the bundle can be trusted."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the bundle {name} is damaged: {reason}")
