"""Errors of the tensor maths.

KVError
├── QuantizationRange   a value does not fit the fp16 scale or zero point
└── LayoutMismatch      bytes do not have the length that their shape says
"""


class KVError(Exception):
    """Root of this package's errors."""


class QuantizationRange(KVError):
    """A key or value is outside what an fp16 scale and zero point can express."""


class LayoutMismatch(KVError):
    """A layer's bytes have another length than its shape."""
