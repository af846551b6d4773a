"""Pure tensor maths of the KV cache: quantization, rotation, byte layout.

Knows nothing of models, files, stores or devices: tensors in, tensors out.
Axis order is ``kv_heads, tokens, head_dim`` throughout.
"""
