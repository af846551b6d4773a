"""The page of `stats --html`, looked at in a real browser."""

import json
import re
from pathlib import Path

import pytest
from browser import Browser, find_browser
from bs4 import BeautifulSoup
from desks import Desk
from PIL import Image
from test_stats import NUM_ASKS, add_asks, rename

WIDTHS = (1280, 400)
EVIL = '/notes/<script>document.title="taken"</script><img src=x onerror=alert(1)>"&amp;.md'
FACTS = {
    "documents": ("documents",), "chunks": ("chunks",), "tokens": ("tokens",), "bytes_per_token": ("bytes_per_token",),
    "disk": ("bytes", "disk"), "asks": ("asks", "count"), "exact": ("asks", "exact"), "content": ("asks", "content"),
    "miss": ("asks", "miss"), "ttft_p50_s": ("ttft", "p50_s"), "ttft_p95_s": ("ttft", "p95_s"),
    "speedup_p50": ("speedup", "p50"),
}  # fmt: skip
"""Where a figure of the page is in the JSON."""


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    folder = tmp_path / "browser"
    folder.mkdir()
    return find_browser(folder)


@pytest.fixture
def used(desk: Desk) -> Desk:
    add_asks(desk)
    rename(desk, "buoys.md", EVIL)
    return desk


def make_page(desk: Desk, *options: str) -> tuple[Path, dict[str, object]]:
    """The page, and the JSON of the same look at the store."""
    done = desk.run("stats", "--html", "page.html", "--json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return desk.root / "page.html", json.loads(done.stdout)


def pick(told: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        assert isinstance(told, dict)
        told = told[key]
    return told


def cells(soup: BeautifulSoup, table: str) -> list[list[str]]:
    rows = soup.select(f"#{table} tbody tr")
    return [[" ".join(cell.get_text(" ").split()) for cell in row.select("td")] for row in rows]


def test_the_figures_are_those_of_json(used: Desk, browser: Browser) -> None:
    page, told = make_page(used)
    soup, errors = browser.dom(page)
    assert errors == []
    shown = {element["id"]: float(str(element["value"])) for element in soup.select("data")}
    assert shown == {name: pick(told, keys) for name, keys in FACTS.items()}
    assert [heading.get_text() for heading in soup.select("h1, h2")] == [
        "kvboost stats", "Fidelity", "Asks", "Collections", "Hottest documents", "Coldest documents",
    ]  # fmt: skip
    assert [row[2] for row in cells(soup, "hottest")] == [str(one["asks"]) for one in told["hottest"]]
    assert [row[1] for row in cells(soup, "collections")] == [str(one["documents"]) for one in told["collections"]]
    fidelity = soup.select_one("#fidelity")
    assert fidelity is not None
    assert fidelity.get_text().split()[0] == "passed;"


def test_the_charts_are_drawn_in_the_page(used: Desk, browser: Browser) -> None:
    soup, _ = browser.dom(make_page(used)[0])
    times, speedups, days = soup.select("figure svg")
    letters = [" ".join(text.get_text() for text in chart.select("text")) for chart in (times, speedups, days)]
    assert "p50 150" in letters[0]
    assert "measured" in letters[1]
    assert "p50 4.0x" in letters[1]
    assert re.search(r"11-1[3-5].*exact.*reused.*repaired.*prefilled", letters[2])
    assert len(times.select("use")) >= NUM_ASKS, "a mark for each ask"
    ids = [str(element["id"]) for element in soup.select("[id]")]
    assert len(ids) == len(set(ids))
    drawn = "".join(map(str, (times, speedups, days)))
    assert {f"var(--{name})" for name in ("ink", "line", "exact", "reused")} <= set(re.findall(r"var\(--\w+\)", drawn))
    assert re.findall(r"#(0[1-6])\1\1\b", drawn) == [], "the page's own colours"


def test_a_documents_name_is_harmless(used: Desk, browser: Browser) -> None:
    page, _ = make_page(used, "--documents")
    soup, errors = browser.dom(page)
    assert errors == []
    assert soup.title is not None
    assert soup.title.get_text() == "kvboost stats"
    assert soup.select("script, img, iframe, link, object") == []
    names = [row[0] for row in cells(soup, "listed")]
    assert len(names) == 8
    assert EVIL.removeprefix("/") in names


def test_the_browser_would_have_told_of_an_error(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text("<!doctype html><script>console.error('loud')</script><p>text")
    assert len(browser.dom(page)[1]) == 1


def test_the_page_loads_nothing(used: Desk) -> None:
    text = make_page(used)[0].read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, "names of SVG's own"
    assert "default-src 'none'" in text
    attributes = [pair for tag in BeautifulSoup(text, "lxml").find_all() for pair in tag.attrs.items()]
    links = [str(value) for name, value in attributes if name.rpartition(":")[2] in ("src", "href", "data", "srcset")]
    assert links
    assert [link for link in links if not link.startswith("#")] == []
    assert not re.search(r"@import|url\((?!#)", text)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_beyond_the_window(used: Desk, browser: Browser, width: int) -> None:
    rename(used, "reviews.md", "/notes/" + "very-long-name-without-a-space" * 8 + ".md")
    content, window = browser.widths(make_page(used)[0], width)
    assert content <= window <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_screenshot_shows_a_page_in_both_schemes(used: Desk, browser: Browser, width: int) -> None:
    page, _ = make_page(used)
    shades = []
    for is_dark in (False, True):
        with Image.open(browser.screenshot(page, width, is_dark=is_dark)) as picture:
            assert picture.width == width
            grey = picture.convert("L")
            shades.append(grey.getpixel((2, 2)))
            assert len(set(grey.resize((64, 80)).tobytes())) > 20, "it is not blank"
            colours = {pixel for _, pixel in picture.convert("RGB").getcolors(picture.width * picture.height) or ()}
            assert any(max(pixel) - min(pixel) > 100 for pixel in colours), "the charts are in colour"
    assert shades[0] > 200
    assert shades[1] < 60


def test_a_store_that_was_never_asked_has_a_page(desk: Desk, browser: Browser) -> None:
    page, told = make_page(desk)
    soup, errors = browser.dom(page)
    assert errors == []
    assert soup.select("svg") == []
    assert "none are kept" in soup.get_text()
    assert pick(told, ("ttft", "p50_s")) is None
    assert soup.select("#ttft_p50_s, #speedup_p50") == []
