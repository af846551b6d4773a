"""How many bytes a layer takes, without torch: for checks before anything is loaded. `layout` has the arrays."""

ALIGNMENT_BYTES = 16
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_SCALE_BYTES = 2


def num_layer_bytes(
    *, kv_heads: int, num_tokens: int, key_dim: int, value_dim: int, bits: int, group: int, dtype: str
) -> int:
    """Bytes of one layer of a chunk, padding included; ``dtype`` counts only at 16 bits.

    >>> num_layer_bytes(kv_heads=3, num_tokens=256, key_dim=64, value_dim=64, bits=8, group=32, dtype="bfloat16")
    110592
    """
    if bits == 16:
        sizes = [kv_heads * num_tokens * dim * DTYPE_BYTES[dtype] for dim in (key_dim, value_dim)]
    else:
        key_groups = kv_heads * -(-num_tokens // group) * key_dim * _SCALE_BYTES
        value_groups = kv_heads * num_tokens * (value_dim // group) * _SCALE_BYTES
        codes = [kv_heads * num_tokens * (dim * bits // 8) for dim in (key_dim, value_dim)]
        sizes = [codes[0], key_groups, key_groups, codes[1], value_groups, value_groups]
    return sum(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)
