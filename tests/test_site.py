"""The site is built once, with warnings as errors, and walked as a reader would: every page, every link."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(ROOT.glob("docs/**/*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    options = ["-c", ROOT / "docs", "-d", folder / "doctrees", ROOT, folder / "html"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def soups(site: Path) -> dict[Path, BeautifulSoup]:
    """The pages that were written in this repository, parsed."""
    written = [site / page.relative_to(ROOT).with_suffix(".html") for page in PAGES]
    return {path: BeautifulSoup(path.read_text(encoding="utf-8"), "lxml") for path in [site / "index.html", *written]}


def targets(page: Path, soup: BeautifulSoup) -> Iterator[tuple[str, Path, str]]:
    """Every link and source of a page that is no web address: as written, its file, its fragment."""
    for tag, name in (("a", "href"), ("link", "href"), ("script", "src"), ("img", "src")):
        for element in soup.find_all(tag):
            written = str(element.get(name) or "")
            if written and "://" not in written and not written.startswith(("data:", "mailto:")):
                whole, fragment = urldefrag(written)
                path = whole.partition("?")[0]
                yield written, (page.parent / unquote(path)).resolve() if path else page, unquote(fragment)


def test_every_page_is_in_the_navigation(soups: dict[Path, BeautifulSoup], site: Path) -> None:
    entry = site / "docs" / "index.html"
    sidebar = soups[entry].find(class_="sidebar-tree")
    assert sidebar is not None
    shown = {(entry.parent / unquote(str(link["href"]))).resolve() for link in sidebar.find_all("a", href=True)}
    assert set(soups) - {entry, site / "index.html"} - shown == set()


def test_no_link_is_dead(soups: dict[Path, BeautifulSoup]) -> None:
    ids = {page: {str(element["id"]) for element in soup.find_all(id=True)} for page, soup in soups.items()}
    for page, soup in soups.items():
        for written, path, fragment in targets(page, soup):
            assert path.exists(), (page.name, written)
            assert not fragment or path not in ids or fragment in ids[path], (page.name, written)


def test_the_site_loads_nothing_from_elsewhere(soups: dict[Path, BeautifulSoup]) -> None:
    for page, soup in soups.items():
        loaded = [str(tag["src"]) for tag in soup.find_all(["script", "img", "iframe"], src=True)]
        loaded += [str(link["href"]) for link in soup.find_all("link", href=True)]
        assert [source for source in loaded if "://" in source] == [], page.name


def test_pictures_load_nothing_from_elsewhere() -> None:
    pictures = sorted(ROOT.glob("docs/pictures/*.svg"))
    assert pictures
    for picture in pictures:
        soup = BeautifulSoup(picture.read_text(encoding="utf-8"), "xml")
        assert soup.find("svg") is not None
        assert not soup.find_all(["image", "script", "foreignObject"])
        assert "url(http" not in picture.read_text(encoding="utf-8")
