"""A prompt's memory on the device, planned before it is taken: a clear refusal instead of an error half way."""

from ..model.architecture import Geometry
from ..model.load import LoadedModel
from ..model.memory import DeviceNeed, PassSizes, activation_bytes, cache_bytes, free_bytes, read_pass_sizes
from .errors import DeviceMemoryShort
from .recipe import Recipe
from .records import layer_shape

ANGLE_BYTES = 8
"""cos and sin of one position and channel pair in fp32."""


def require_device_memory(model: LoadedModel, recipe: Recipe, num_tokens: int, pass_tokens: int, capacity: int) -> None:
    """Raise ``DeviceMemoryShort`` unless a prompt of ``num_tokens`` fits; only a GPU is asked.

    ``pass_tokens`` are those of the largest pass, ``capacity`` the places of all caches that are still to be made.
    """
    free = free_bytes(model.device)
    if free is None:
        return
    sizes = read_pass_sizes(model.module.config.to_dict(), model.dtype.itemsize)
    staged = layer_shape(model, recipe, num_tokens).num_bytes
    require_room(plan_device_memory(model.geometry, sizes, num_tokens, pass_tokens, capacity, staged), free)


def plan_device_memory(
    geometry: Geometry, sizes: PassSizes, num_tokens: int, pass_tokens: int, capacity: int, staged_bytes: int
) -> DeviceNeed:
    """What a prompt takes beside the weights; ``staged_bytes`` is one layer of all its tokens as stored."""
    return DeviceNeed(
        cache=cache_bytes(geometry, capacity, sizes.itemsize),
        activations=activation_bytes(geometry, sizes, pass_tokens, num_tokens),
        staging=staged_bytes + num_tokens * ANGLE_BYTES * geometry.key_dim // 2,
    )


def require_room(need: DeviceNeed, free: int) -> None:
    """Raise ``DeviceMemoryShort`` with both figures unless the need is covered."""
    if need.total > free:
        raise DeviceMemoryShort(
            f"the prompt needs {need.total:,} bytes of the device's memory (cache {need.cache:,}, activations "
            f"{need.activations:,}, staging {need.staging:,}), which has free: {free:,}"
        )
