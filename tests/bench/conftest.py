"""A folder of documents to cut passages from, and a tiny model: pytest's importlib mode adds no paths."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines"))
sys.path.insert(0, str(Path(__file__).parent))

from samples import make_text
from tiny_models import save_tiny

from kvboost_cli.model.codec import TextCodec


@pytest.fixture(scope="session")
def bench_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with layers above the probe, so that `cacheblend` chooses."""
    return save_tiny("llama-deep", tmp_path_factory.mktemp("bench-model") / "tiny")


@pytest.fixture(scope="session")
def codec(bench_model: Path) -> TextCodec:
    return TextCodec(bench_model)


@pytest.fixture(scope="session")
def bench_docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six documents of six paragraphs, of some 180 tokens each for the tiny tokenizer."""
    folder = tmp_path_factory.mktemp("bench-docs")
    for seed in range(6):
        (folder / f"note-{seed}.md").write_text(make_text(seed, num_paragraphs=6), encoding="utf-8")
    return folder
