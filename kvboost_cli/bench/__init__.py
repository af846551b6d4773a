"""Benchmarks that anyone can run on their own documents, over the same pipelines as ``index`` and ``ask``.

Knows nothing of terminals: ``commands/bench.py`` parses, shows progress and prints.
"""
