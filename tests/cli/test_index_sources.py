"""`kvboost index`: which files become documents, and what is said of those that do not."""

import random
import re
import subprocess
from pathlib import Path

import pytest
from expectations import assert_refused, assert_told, prose, without_root_rights

BLOB = random.Random(0).randbytes(3000)


def skipped(facts):  # type: ignore[no-untyped-def]
    """Reason by the file's name."""
    return {Path(skip["path"]).name: skip["reason"] for skip in facts["documents"]["skipped"]}


@pytest.mark.parametrize("name", ["nowhere", "docs/nowhere.md", "no*thing.md"])
def test_a_missing_path_is_a_usage_error(bare_desk, name):  # type: ignore[no-untyped-def]
    assert_refused(bare_desk.run("index", bare_desk.docs, name), 2, f"no such file or folder: {name}")


def test_no_path_at_all_is_a_usage_error(bare_desk):  # type: ignore[no-untyped-def]
    assert_refused(bare_desk.run("index"), 2, "name at least one file or folder")
