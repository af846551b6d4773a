"""Several documents in one batch, as on a GPU, give the records that they give one by one."""

from pathlib import Path

import numpy
import pytest
from samples import Desk, make_text
from tiny_models import TinyModels

from kvboost_cli.pipelines.encoding import Encoder

# fp32 in another order of sums, over keys that have been turned and turned back
TOLERANCE = {"atol": 1e-4, "rtol": 0}


def stored_layers(desk: Desk) -> dict[bytes, list[numpy.ndarray]]:  # type: ignore[type-arg]
    """Every chunk's layers as fp32 numbers."""
    layers = {}
    with desk.workspace() as workspace, workspace.store.snapshot() as snapshot:
        for entry in snapshot.documents():
            for key in entry.chunk_keys:
                header = snapshot.header(key)
                assert header is not None
                layers[key] = [
                    numpy.frombuffer(bytes(snapshot.layer(key, layer, header)), dtype=numpy.float32)
                    for layer in range(header.num_layers)
                ]
    return layers


def make_desk(root: Path, tiny_models: TinyModels) -> Desk:
    """Documents of several lengths, one of them of several windows."""
    root.mkdir()
    desk = Desk(root, tiny_models.path("qwen3"), bits=16)
    for seed, num_paragraphs in enumerate((1, 3, 12, 2, 1)):
        desk.write(f"{seed}.md", make_text(seed, num_paragraphs))
    return desk


@pytest.mark.parametrize("batch_tokens", [2000, 100_000])
def test_batches_change_nothing(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_tokens: int
) -> None:
    one_by_one, batched = make_desk(tmp_path / "one", tiny_models), make_desk(tmp_path / "many", tiny_models)
    one_by_one.index()
    monkeypatch.setattr(Encoder, "batch_tokens", batch_tokens)
    tally, _events = batched.index()
    expected, actual = stored_layers(one_by_one), stored_layers(batched)
    assert tally.changes["added"] == 5
    assert actual.keys() == expected.keys()
    for key, layers in expected.items():
        for layer, other in zip(layers, actual[key], strict=True):
            numpy.testing.assert_allclose(other, layer, **TOLERANCE)
