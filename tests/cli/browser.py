"""A real browser without a window: what a page becomes in it."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

NAMES = ("chromium", "chromium-browser", "google-chrome")
MEASURE = (
    "<script>addEventListener('load', () => { const root = document.documentElement;"
    "parent.postMessage(JSON.stringify([root.scrollWidth, root.clientWidth]), '*'); });</script>"
)
FRAME = (
    "<!doctype html><script>addEventListener('message', event => {{"
    "document.documentElement.dataset.measured = event.data; }});</script>"
    '<iframe src="{uri}" width="{width}" height="900" style="border: 0"></iframe>'
)
"""A window has a least width of its own; a frame in it has not."""

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


@dataclass(frozen=True)
class Browser:
    """Chromium, with a profile of its own below ``folder``."""

    program: str
    folder: Path

    def dom(self, page: Path, width: int = 1280) -> tuple[BeautifulSoup, list[str]]:
        """The page as the browser has it, and what it wrote to its console."""
        done = self._run(page, width, "--dump-dom", "--enable-logging=stderr")
        return BeautifulSoup(done.stdout, "lxml"), [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def screenshot(self, page: Path, width: int, *, is_dark: bool = False) -> Path:
        """The page's upper end as a PNG file."""
        picture = self.folder / f"{page.stem}-{width}-{is_dark}.png"
        scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
        self._run(page, width, f"--screenshot={picture}", "--hide-scrollbars", scheme)
        return picture

    def widths(self, page: Path, width: int) -> tuple[int, int]:
        """How wide the content is, and how wide its frame: told by a script in a copy of the page."""
        copy, frame = (self.folder / f"{page.stem}-{kind}.html" for kind in ("measured", "frame"))
        copy.write_text(POLICY.sub(MEASURE, page.read_text(encoding="utf-8")), encoding="utf-8")
        frame.write_text(FRAME.format(uri=copy.as_uri(), width=width), encoding="utf-8")
        soup = BeautifulSoup(self._run(frame, 1600, "--dump-dom", "--virtual-time-budget=3000").stdout, "lxml")
        assert soup.html is not None
        content, window = json.loads(str(soup.html["data-measured"]))
        return content, window

    def _run(self, page: Path, width: int, *options: str) -> subprocess.CompletedProcess[str]:
        command = [
            self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            f"--user-data-dir={self.folder / 'profile'}", f"--window-size={width},1600", *options, page.as_uri(),
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def find_browser(folder: Path) -> Browser:
    """The browser of the system's packages; the test is skipped without one."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed: a page has to be looked at in a real browser")
    return Browser(program, folder)
