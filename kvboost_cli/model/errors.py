"""What can go wrong with a model.

::

    ModelError
    +-- ModelNotFound          no such directory, catalog name or hub id, or not fetched yet
    +-- ModelDownloadFailed    the network, the index or the installer said no
    |   +-- ModelDamaged       what arrived has another checksum
    |   +-- InstallerMissing   this Python environment has no pip to fetch with
    +-- ModelUnsupported       an architecture, position scheme or file format that we refuse
    +-- DeviceUnavailable      the wanted device does not exist here
    +-- DeviceTooSmall         the device has not enough free memory for the model's weights
"""


class ModelError(Exception):
    """Root of this package's errors."""


class ModelNotFound(ModelError):
    """There is no model under this name or path."""


class ModelDownloadFailed(ModelError):
    """A model could not be fetched."""


class ModelDamaged(ModelDownloadFailed):
    """A fetched file does not have the checksum that it must have."""


class InstallerMissing(ModelDownloadFailed):
    """pip is not installed beside kvboost, so it cannot fetch."""


class ModelUnsupported(ModelError):
    """The model exists, but kvboost cannot use it."""


class DeviceUnavailable(ModelError):
    """The device asked for is not available on this machine."""


class DeviceTooSmall(ModelError):
    """The model's weights do not fit the device's free memory; the message gives both in bytes."""
