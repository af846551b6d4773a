"""The main job on the default model, by the script: index, then one document alone, then four shuffled."""

import shutil
from pathlib import Path

import pytest
from desks import Desk
from test_ask_output import assert_sums

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def real_desk(stocked: Desk, default_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Four pages of the handbook, encoded alone to save the tests' time."""
    root = tmp_path_factory.mktemp("real")
    pages = ("on-call", "services", "reviews", "backups")
    for page in pages:
        shutil.copy(stocked.docs / f"{page}.md", root)
    changes = {"KVBOOST_MODEL": str(default_model_dir), "KVBOOST_STORE": str(root / "store"), "KVBOOST_CONTEXTS": "0"}
    desk = Desk(root, stocked.docs, root / "store", stocked.env | changes | {"KVBOOST_MAX_TOKENS": "12"})
    assert desk.facts("index", *(f"{page}.md" for page in pages))["documents"]["added"] == 4
    return desk


def test_one_document_alone_is_answered_from_the_store(real_desk: Desk) -> None:
    told = real_desk.facts("ask", "When does the week change hands?", "-d", "on-call.md")
    assert_reuse(told, 1)


def test_four_documents_in_an_order_that_was_never_seen_are_answered_from_the_store(real_desk: Desk) -> None:
    names = ("reviews", "on-call", "backups", "services")
    args = [part for name in names for part in ("-d", f"{name}.md")]
    told = real_desk.facts("ask", "When does the week change hands?", *args, "--verify")
    assert_reuse(told, 4)
    assert [Path(document["path"]).stem for document in told["documents"]] == list(names)
    assert told["verify"]["kl_first"] < 2.0, "another order, encoded alone: near full prefill, not the same"


def assert_reuse(told: dict, num_documents: int) -> None:  # type: ignore[type-arg]
    """An answer, sums that hold, and KV from the store for more than nine tenths of the prompt."""
    assert_sums(told)
    assert told["answer"].strip()
    assert [document["hit"] for document in told["documents"]] == ["exact", *["content"] * (num_documents - 1)]
    tokens = told["tokens"]
    assert tokens["exact"] + tokens["reused"] > 0.9 * tokens["prompt"]
