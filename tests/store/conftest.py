"""Lets the tests here share `store_samples` and `store_contract`: pytest's importlib mode adds no paths."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
