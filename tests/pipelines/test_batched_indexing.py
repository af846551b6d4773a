"""Several documents in one batch, as on a GPU, give the records that they give one by one."""

from pathlib import Path

import numpy
import pytest
from samples import Desk, make_text
from tiny_models import TinyModels

from kvboost_cli.pipelines.encoding import Encoder
from kvboost_cli.pipelines.writer import Encoded

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


def test_renamed_documents_do_not_wait_for_one_with_a_few_new_tokens(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they lack, exact KV above all, is held in memory until they are stored."""
    desk = Desk(tmp_path, tiny_models.path("llama"))
    paths = [desk.write(f"old{number}.md", make_text(number, 2)) for number in range(10)]
    desk.index()
    for path in paths:
        path.rename(path.with_name(path.name.replace("old", "renamed")))
    desk.write("first.md", "A few new tokens.\n")
    monkeypatch.setattr(Encoder, "batch_tokens", 1000)
    tally, events = desk.index()
    held, most = 0, 0
    for event in events:
        held = held + event.num_tokens + event.num_exact_tokens if isinstance(event, Encoded) else 0
        most = max(most, held)
    assert (tally.changes["added"], tally.num_new_chunks) == (11, 11)
    assert 1000 <= most < 2000 < tally.tokens_exact
