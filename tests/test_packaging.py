"""The wheel: what is in it, and that it runs from an environment of its own, beside files with its modules' names."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
NOT_SOURCES = shutil.ignore_patterns(
    ".git",
    ".venv",
    "build",
    "dist",
    "*.egg-info",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    ".kvboost",
    ".environments",
)
DECOYS = ("store.py", "kvboost_cli.py", "typer.py")
DATA = "kvboost_cli-{version}.data/data/"
LINK = re.compile(r"\[[^\]]+\]\(([^)\s#]+)")


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: building leaves folders behind."""
    folder = tmp_path_factory.mktemp("sources") / "kvboost"
    shutil.copytree(ROOT, folder, ignore=NOT_SOURCES)
    return folder


@pytest.fixture(scope="module")
def sdist(sources: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", ".", cwd=sources)
    return next((sources / "dist").glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    return build_wheel(sources)


def build_wheel(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", ".", cwd=folder)
    return next((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel alone, which sees this one's libraries and not its kvboost; nothing is fetched."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder)
    site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A path in a .pth file is not itself searched for .pth files, so the editable kvboost there is not found.
    (site_packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def contents(wheel: Path) -> dict[str, str]:
    with ZipFile(wheel) as archive:
        return {name: sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tarfile", "-e", sdist, tmp_path], check=True)
    unpacked = next(tmp_path.iterdir())
    assert contents(build_wheel(unpacked)) == contents(wheel)


def test_the_sdist_has_what_the_tests_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "Makefile",
        "constraints.txt",
        ".ci/run",
        "docs/conf.py",
        "examples/handbook/on-call.md",
        "scripts/demo.sh",
    }
    tests = {str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/*.py")}
    assert (needed | tests) - names == set()


def test_the_wheel_holds_packages_man_page_and_documentation_and_nothing_else(wheel: Path) -> None:
    names = set(contents(wheel))
    version = wheel.name.split("-")[1]
    data = DATA.format(version=version)
    assert {name.split("/")[0] for name in names} == {
        "kvboost_cli",
        "store",
        data.split("/")[0],
        f"kvboost_cli-{version}.dist-info",
    }
    tops = ("kvboost_cli", "store")
    modules = {str(path.relative_to(ROOT)) for top in tops for path in ROOT.glob(f"{top}/**/*.py")}
    template = {f"kvboost_cli/dashboard/page.{kind}" for kind in ("html", "css")}
    assert {name for name in names if name.split("/")[0] in tops} == modules | template
    pages = {str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]}
    documented = {name.removeprefix(f"{data}share/doc/kvboost/") for name in names if name.startswith(data)}
    assert pages - documented == set()
    assert f"{data}share/man/man1/kvboost.1" in names


def test_links_and_pictures_of_the_installed_documentation_resolve(installed: Path) -> None:
    folder = installed / "share" / "doc" / "kvboost"
    pages = sorted(folder.glob("**/*.md"))
    assert folder / "README.md" in pages
    for page in pages:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), (page.name, link)


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("path",), ("models", "list"), ("ask", "--help")])
def test_the_installed_script_runs_beside_files_with_its_modules_names(
    installed: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    for name in DECOYS:
        (tmp_path / name).write_text("raise RuntimeError('a decoy was imported')\n")
    env = {"HOME": str(tmp_path), "PATH": os.defpath}
    assert run(installed / "bin" / "kvboost", *args, cwd=tmp_path, env=env)


def test_the_installed_script_runs_the_installed_code(installed: Path, wheel: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.defpath}
    ask = "import store, kvboost_cli; print(store.__file__); print(kvboost_cli.__file__)"
    places = run(installed / "bin" / "python", "-P", "-c", ask, cwd=tmp_path, env=env).split()
    assert [Path(place).is_relative_to(installed) for place in places] == [True, True]
    told = run(installed / "bin" / "kvboost", "--version", cwd=tmp_path, env=env)
    assert told == f"kvboost {wheel.name.split('-')[1]}\n"
