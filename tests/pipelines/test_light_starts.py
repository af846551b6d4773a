"""What must not load torch: an index run over documents that have not changed, told by its own process."""

import json
import subprocess
import sys

import pytest
from samples import Desk, make_text

SCRIPT = """
import json, sys
from pathlib import Path
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.tally import IndexTally
from kvboost_cli.pipelines.workspace import WorkspaceRequest, open_workspace

store, model, cache, docs, prune, dry_run = sys.argv[1:]
request = WorkspaceRequest(Path(store), model, "auto")
make = lambda name, dtype: ModelHandle(name, Path(model), "cpu", dtype, Path(cache))
tally = IndexTally()
with open_workspace(request, make, create=False) as workspace:
    options = {"prune": bool(prune), "dry_run": bool(dry_run)}
    for event in index_documents(workspace, IndexRequest([docs], **options)):
        tally.add(event)
heavy = sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "transformers", "numpy"})
print(json.dumps([tally.changes, heavy]))
"""


def run_index(
    desk: Desk, *, prune: bool = False, dry_run: bool = False, folder: str = "docs"
) -> tuple[dict[str, int], list[str]]:
    places = [desk.root / "store", desk.model_dir, desk.root / "cache", desk.docs.with_name(folder)]
    flags = ["1" if flag else "" for flag in (prune, dry_run)]
    command = [sys.executable, "-W", "error", "-c", SCRIPT, *map(str, places), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    changes, heavy = json.loads(done.stdout)
    return changes, heavy


@pytest.fixture
def indexed(desk: Desk) -> Desk:
    """Two documents without exact KV."""
    desk.exact = False
    for name in ("a.md", "b.md"):
        desk.write(name, make_text(len(name), 2))
    desk.index()
    return desk


def test_an_unchanged_folder_loads_no_torch(indexed: Desk) -> None:
    assert run_index(indexed) == ({"added": 0, "updated": 0, "unchanged": 2, "removed": 0}, [])


def test_a_moved_folder_loads_no_torch(indexed: Desk) -> None:
    indexed.docs.rename(indexed.docs.with_name("moved"))
    changes, heavy = run_index(indexed, folder="moved")
    assert changes == {"added": 2, "updated": 0, "unchanged": 0, "removed": 0}
    assert "torch" not in heavy


def test_a_dry_run_loads_no_torch(indexed: Desk) -> None:
    indexed.write("new.md", make_text(9, 2))
    changes, heavy = run_index(indexed, dry_run=True)
    assert changes["added"] == 1
    assert "torch" not in heavy
    assert indexed.names() == ["a.md", "b.md"]
