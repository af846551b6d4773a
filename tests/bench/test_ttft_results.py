"""Figures of a run: medians, ratios within each prompt, and what JSON and the picture make of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from kvboost_cli.bench.floor import Floor
from kvboost_cli.bench.ttft_picture import draw_ttft
from kvboost_cli.bench.ttft_results import AskTimes, PromptTimes, TTFTRun
from kvboost_cli.pipelines.report import PHASES

FLOOR = Floor(
    load_bytes=10_000_000,
    copy_bytes_per_s=1e9,
    tail_tokens=20,
    tail_s=0.03,
    repair_tokens=50,
    repair_s=0.06,
    together_s=0.08,
)


def made_up_ask(strategy: str, ttft_s: float) -> AskTimes:
    return AskTimes(strategy, ttft_s, dict.fromkeys(PHASES, ttft_s / len(PHASES)), 24, FLOOR)


def made_up_prompt(size: str, number: int, full_prefill_s: float, ttft_s: float) -> PromptTimes:
    asks = (made_up_ask("none", ttft_s / 2), made_up_ask("auto", ttft_s))
    return PromptTimes(size, number, ("000-a.md", "001-b.md"), 1000 + number, full_prefill_s, asks)


RUN = TTFTRun(
    setup={"model": {"name": "tiny"}},
    docs="/docs",
    seed=1,
    repeats=3,
    passage_tokens=300,
    strategies=("none", "auto"),
    seconds=60.0,
    complete=True,
    memory=(),
    prompts=(
        made_up_prompt("1k", 1, 1.0, 0.2),
        made_up_prompt("1k", 2, 3.0, 0.3),
        made_up_prompt("1k", 3, 2.0, 0.25),
        made_up_prompt("4k", 1, 8.0, 0.4),
    ),
)


def test_figures_are_medians_and_ratios_are_taken_within_each_prompt() -> None:
    small, large = RUN.summaries
    assert (small.size, small.num_prompts, small.num_documents, small.prompt_tokens) == ("1k", 3, 2, 1002)
    assert small.full_prefill_s.value == 2.0
    none, auto = small.strategies
    assert (none.strategy, auto.strategy) == ("none", "auto")
    assert auto.ttft_s.value == 0.25
    assert auto.speedup.value == pytest.approx(8.0)  # of 5, 10 and 8
    assert none.speedup.value == pytest.approx(16.0)
    assert auto.floor.total_s == pytest.approx(0.1)
    assert auto.floor_ratio.value == pytest.approx(2.5)
    assert sum(auto.phases.values()) == pytest.approx(0.25)
    assert large.num_prompts == 1
    assert (large.full_prefill_s.low, large.full_prefill_s.high) == (8.0, 8.0)


def test_json_has_every_prompt_and_an_interval_for_what_has_one() -> None:
    facts = json.loads(json.dumps(RUN.to_json()))
    assert facts["model"] == {"name": "tiny"}
    assert len(facts["prompts"]) == 4
    assert facts["prompts"][0]["asks"][1]["floor"]["repair_tokens"] == 50
    auto = facts["sizes"][0]["strategies"][1]
    assert auto["speedup"] == [pytest.approx(8.0), pytest.approx(5.0), pytest.approx(10.0)]
    assert auto["floor"]["total_s"] == pytest.approx(0.1)


@pytest.mark.parametrize("num_prompts", [1, 4])
def test_the_picture_is_drawn_whatever_was_measured(tmp_path: Path, num_prompts: int) -> None:
    run = replace(RUN, prompts=RUN.prompts[:num_prompts])
    draw_ttft(run.summaries, "the title", tmp_path / "plot.png")
    with Image.open(tmp_path / "plot.png") as image:
        assert image.format == "PNG"
    for name in ("plot.svg", "again.svg"):
        draw_ttft(run.summaries, "the title", tmp_path / name)
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    for told in ("the title", "full prefill", "none", "auto", "prompt tokens"):
        assert told in text
    assert text == (tmp_path / "again.svg").read_text(encoding="utf-8")
