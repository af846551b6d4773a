"""Records terminal sessions as pictures: real commands in a pseudo-terminal, its screen as SVG: `make pictures`.

The commands run in an empty project beside a copy of `examples/handbook`, with the default model. What is drawn is
the last state of the screen, as a terminal emulator has it. The pictures load nothing from elsewhere. The page of
`kvboost stats --html` is drawn by Chromium, and left as it is where there is none.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from io import StringIO
from itertools import groupby
from pathlib import Path

import pyte
from PIL import Image
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, LINES = 96, 80
"""So many lines that no session scrolls."""

SCENES = {
    "session": (
        "kvboost index handbook",
        'kvboost ask "How long does a full restore of the database take?" '
        "-d services.md -d on-call.md -d backups.md --max-tokens 32 --verify",
    ),
    "stats": ("kvboost stats",),
}
"""Picture: its commands. The scenes follow each other in one project."""

USE = "kvboost ask -q -f questions.txt --top-k 2 --max-tokens 2"
QUESTIONS = (
    "Who is on call?",
    "Where is the key?",
    "How long does a full restore of the database take?",
    "Which port does Lantern listen on?",
    "When is the week handed over?",
    "Who may have access to the database?",
    "How often is a buoy serviced?",
    "What happens after an incident?",
    "Where are the backups kept?",
    "Who reviews a change?",
    "When is a release made?",
    "Who is called at night?",
)
"""Asked before the scene of this name, so that there is something to plot."""
USED_SCENE = "stats"

PAGE_SIZE = "1100,1300"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MAX_BYTES = 200_000

WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
FONT = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
PROMPT = "\x1b[1;32m$\x1b[0m "


def record(commands: tuple[str, ...], folder: Path) -> pyte.Screen:
    """The screen after the commands, one after the other, in ``folder``."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    for command in commands:
        stream.feed(f"{PROMPT}{command}\r\n".encode())
        for output in _run(command, folder):
            stream.feed(output)
        stream.feed(b"\r\n")
    return screen


def _run(command: str, folder: Path) -> Iterator[bytes]:
    """What a command writes to its terminal; raises ``CalledProcessError`` if it fails."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (LINES, COLUMNS))
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(command, shell=True, cwd=folder, env=env, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        try:
            while output := os.read(ours, 65536):
                yield output
        except OSError:
            pass  # how Linux tells that the other end is closed
        finally:
            os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def draw(screen: pyte.Screen, title: str) -> str:
    """The screen as an SVG picture, without the empty lines at its end."""
    lines = [_line(screen, row) for row in range(LINES)]
    while lines and not lines[-1].plain:
        lines.pop()
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor", force_terminal=True)
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    picture = console.export_svg(title=title, theme=MONOKAI, unique_id="kvboost")
    return WEB_FONTS.sub("", picture).replace("Fira Code, monospace", FONT)


def _line(screen: pyte.Screen, row: int) -> Text:
    cells = [screen.buffer[row][column] for column in range(COLUMNS)]
    line = Text()
    for look, run in groupby(cells, key=lambda cell: (cell.fg, cell.bold, cell.reverse)):
        colour, bold, reverse = look
        line.append("".join(cell.data for cell in run), Style(color=_colour(colour), bold=bold, reverse=reverse))
    line.rstrip()
    return line


def _colour(name: str) -> str:
    """A colour of the emulator's by rich's name for it.

    >>> _colour("brown"), _colour("brightblack"), _colour("ff8700")
    ('yellow', 'bright_black', '#ff8700')
    """
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return name.replace("bright", "bright_").replace("brown", "yellow")


def photograph(folder: Path, picture: Path) -> None:
    """The page of the project in ``folder`` as a PNG of few colours, if there is a browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"no Chromium is installed, so this picture is not made anew: {picture}", file=sys.stderr)
        return
    page, large = folder / "stats.html", folder / "stats.png"
    subprocess.run(["kvboost", "stats", "--html", page], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'chromium'}",
    )
    screenshot = (f"--window-size={PAGE_SIZE}", f"--screenshot={large}", page.as_uri())
    subprocess.run([browser, *options, *screenshot], check=True, capture_output=True)
    with Image.open(large) as image:
        image.quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)
    if picture.stat().st_size > MAX_BYTES:
        raise ValueError(f"the picture is too large for a repository: {picture.stat().st_size} bytes")


def main() -> None:
    """Record all scenes, and the page."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        shutil.copytree(ROOT / "examples" / "handbook", project / "handbook")
        (project / "kvboost.toml").touch()  # so the store is the project's
        (project / "questions.txt").write_text("\n".join(QUESTIONS))
        for name, commands in SCENES.items():
            if name == USED_SCENE:
                subprocess.run(USE.split(), cwd=project, check=True, stdout=subprocess.DEVNULL)
            svg = draw(record(commands, project), "kvboost")
            (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")
        photograph(project, PICTURES / "stats-page.png")


if __name__ == "__main__":
    main()
