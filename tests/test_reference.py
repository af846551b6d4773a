"""What is made from the commands is as they are now: docs/reference.md, the man page; and the page on errors."""

import re
import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from kvboost_cli.commands.failures import FAILURES

ROOT = Path(__file__).parents[1]
MAN_PAGE = ROOT / "docs" / "man" / "kvboost.1"
TROUBLES = ROOT / "docs" / "troubleshooting.md"

# Roots of trees, met only through what is below them, and options of `bench` whose message lists what may be written.
NOT_ON_THE_PAGE = {
    "PipelineError",
    "BundleError",
    "BenchError",
    "StoreError",
    "SchedulingError",
    "UnknownTask",
    "UnknownVariant",
    "UnknownSize",
    "UnknownStrategy",
    "UnknownPicture",
    "OrderNotShared",
}


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """scripts/reference.py, which is no part of a package."""
    spec = spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_commands_say(reference: ModuleType) -> None:
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == reference.reference_page(reference.describe_all()), "run `make reference`"


def test_the_man_page_is_what_the_commands_say(reference: ModuleType) -> None:
    written = MAN_PAGE.read_text(encoding="utf-8")
    assert written == reference.man_page(reference.describe_all()), "run `make reference`"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff formats man pages")
def test_the_man_page_can_be_formatted() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", MAN_PAGE], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "kvboost index [OPTIONS] [PATH...]" in done.stdout
    assert re.search(r"--store DIR\n +The store's directory\.", done.stdout)


def test_every_error_has_a_paragraph_or_a_reason_not_to() -> None:
    explained = set(re.findall(r"\w+", " ".join(re.findall(r"<!-- (.*?) -->", TROUBLES.read_text(encoding="utf-8")))))
    assert explained & NOT_ON_THE_PAGE == set()
    assert explained | NOT_ON_THE_PAGE == set(FAILURES)


def test_the_messages_on_the_page_are_those_of_the_code() -> None:
    headings = re.findall(r"^### (.+)$", TROUBLES.read_text(encoding="utf-8"), re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r"`([^`]+)`", heading)]
    code = " ".join(
        path.read_text(encoding="utf-8") for top in ("kvboost_cli", "store") for path in ROOT.glob(f"{top}/**/*.py")
    )
    words = [part.strip() for message in messages for part in message.split("...") if part.strip()]
    system = {"No space left on device"}
    assert [part for part in words if part not in code and part not in system] == []
