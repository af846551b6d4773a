"""The picture: a real file of the format that its name tells, with a panel for each task, labels side by side."""

import random
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image
from runs import made_up_run

from kvboost_cli.bench.errors import UnknownPicture
from kvboost_cli.bench.labels import Box, Point, place_labels
from kvboost_cli.bench.picture import draw_frontier, frontier, require_picture
from kvboost_cli.bench.summary import summarize_run


@pytest.mark.parametrize(("num_tasks", "columns", "rows"), [(1, 1, 1), (3, 3, 1), (4, 2, 2)])
def test_a_png_grows_with_its_panels(tmp_path: Path, num_tasks: int, columns: int, rows: int) -> None:
    tasks = ("fact", "summary", "code", "list")[:num_tasks]
    draw_frontier(summarize_run(made_up_run(*tasks)), "title", tmp_path / "plot.png")
    with Image.open(tmp_path / "plot.png") as image:
        assert image.format == "PNG"
        width, height = image.size
    assert width // 700 == columns
    assert height // 600 == rows


def test_an_svg_names_tasks_and_variants_and_is_the_same_again(tmp_path: Path) -> None:
    for name in ("plot.svg", "again.SVG"):
        draw_frontier(summarize_run(made_up_run("fact", "two")), "the title", tmp_path / name)
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    for told in ("the title", "fact: 4 prompts of 1,300 tokens", "two: 4", "B: cacheblend 15 %, alone", "question 2 %"):
        assert told in text
    assert text == (tmp_path / "again.SVG").read_text(encoding="utf-8")


def test_a_kl_of_nothing_is_drawn_too(tmp_path: Path) -> None:
    from dataclasses import replace

    run = made_up_run("fact", num_prompts=1)
    exact = tuple(replace(result, kl_mean=0.0) for result in run.prompts[0].variants)
    draw_frontier(
        summarize_run(replace(run, prompts=(replace(run.prompts[0], variants=exact),))), "", tmp_path / "plot.png"
    )
    assert (tmp_path / "plot.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["plot", "plot.pdf", "plot.png.gz"])
def test_another_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownPicture):
        require_picture(tmp_path / name)


def test_a_picture_needs_a_folder(tmp_path: Path) -> None:
    require_picture(tmp_path / "plot.png")
    with pytest.raises(NotADirectoryError):
        require_picture(tmp_path / "missing" / "plot.png")


def test_the_frontier_has_what_no_point_beats() -> None:
    assert frontier([(3, 1), (1, 5), (2, 6), (1.5, 5), (4, 1)]) == [(1, 5), (3, 1)]


def test_labels_do_not_cover_each_other_while_there_is_room() -> None:
    chance = random.Random(4)
    points = [Point(chance.uniform(100, 500), chance.uniform(100, 400), 80, 14) for _ in range(8)]
    marks = [Box(point.x - 4, point.y - 4, 8, 8) for point in points]
    area = Box(0, 0, 600, 500)
    placed = place_labels(points, marks, area)
    assert [one.overlap(other) for one, other in combinations([*placed, *marks], 2) if one in placed] == pytest.approx(
        [0.0] * (len(placed) * len(marks) + len(placed) * (len(placed) - 1) // 2)
    )
    assert all(box.overlap(area) == pytest.approx(box.width * box.height) for box in placed)
