"""The repair strategies, one module each; ``repairing`` has them by name.

A strategy is a function of one ``RepairTask``. It chooses content hits to recompute, and computes them together with
all that has no KV and the tail.
"""
