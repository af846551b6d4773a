"""How many bytes a layer takes, from integers alone: no tensor library is needed to check a store."""

ALIGNMENT_BYTES = 16
_SCALE_BYTES = 2  # fp16


def layer_num_bytes(
    *, kv_heads: int, num_tokens: int, key_dim: int, value_dim: int, bits: int, group: int, item_bytes: int
) -> int:
    """Bytes of a layer as ``layout`` writes it; ``item_bytes`` is the size of the model's own numbers.

    >>> layer_num_bytes(kv_heads=3, num_tokens=256, key_dim=64, value_dim=64, bits=8, group=32, item_bytes=2)
    110592
    """
    heads_tokens = kv_heads * num_tokens
    if bits == 16:
        return sum(_aligned(heads_tokens * dim * item_bytes) for dim in (key_dim, value_dim))
    packing = 8 // bits
    key_groups = kv_heads * -(-num_tokens // group) * key_dim * _SCALE_BYTES
    value_groups = heads_tokens * (value_dim // group) * _SCALE_BYTES
    codes = [_aligned(heads_tokens * (dim // packing)) for dim in (key_dim, value_dim)]
    return sum(codes) + 2 * _aligned(key_groups) + 2 * _aligned(value_groups)


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
