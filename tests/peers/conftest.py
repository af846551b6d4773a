"""Benchmarks are no installed package: pytest's importlib mode adds no paths."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
