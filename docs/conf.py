"""The site: `make site`. Its sources are the repository's own pages, as they are read in a repository browser.

The source folder is the repository, so that a link such as `../README.md` leads to the same page in both. The
navigation is made from the tables of docs/index.md: a page that stands in one of them is in the site.
"""

import posixpath
import re
from importlib.metadata import version as version_of
from typing import Any

project = "kvboost"
author = "kvboost authors"
copyright = "kvboost authors"
release = version = version_of("kvboost-cli")

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**.md"]
source_suffix = {".md": "markdown"}
nitpicky = True

myst_heading_anchors = 4  # headings are linked to as on GitHub

html_theme = "furo"
html_title = "kvboost"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
templates_path = ["site"]
html_additional_pages = {"index": "to-docs.html"}

LINK = re.compile(r"^\| \[[^\]]*\]\(([^)#]+)\.md\)", re.MULTILINE)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def navigation(entry: str, folder: str) -> str:
    """A hidden table of contents for each section of the entry page that has a table of pages."""
    parts = SECTION.split(entry)[1:]
    sections = zip(parts[::2], parts[1::2], strict=True)
    return "".join(_contents(title, LINK.findall(body), folder) for title, body in sections if LINK.search(body))


def _contents(title: str, pages: list[str], folder: str) -> str:
    names = "".join(f"/{posixpath.normpath(posixpath.join(folder, page))}\n" for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}```\n"


def _add_navigation(_app: Any, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += navigation(source[0], posixpath.dirname(name))


def setup(app: Any) -> None:
    """What Sphinx calls first."""
    app.connect("source-read", _add_navigation)
