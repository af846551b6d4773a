"""Runs as JSON and back, merged, and summed up."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runs import SETUP, made_up_run, on_another_machine

from kvboost_cli.bench.errors import NotARun, RunsDiffer
from kvboost_cli.bench.intervals import Interval
from kvboost_cli.bench.results import QualityRun, merge_runs, read_run
from kvboost_cli.bench.summary import summarize_run


def saved(run: QualityRun, path: Path) -> Path:
    path.write_text(json.dumps(run.to_json()), encoding="utf-8")
    return path


def test_a_run_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    run = made_up_run("fact", "summary")
    assert read_run(saved(run, tmp_path / "run.json")) == run


@pytest.mark.parametrize("text", ["", "[]", "{}", "no json", '{"prompts": 3}', json.dumps({"runs": []})])
def test_what_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(NotARun, match=r"other\.json$"):
        read_run(tmp_path / "other.json")


def test_a_run_without_prompts_or_with_another_key_is_refused(tmp_path: Path) -> None:
    facts = made_up_run("fact").to_json()
    for changed in ({"prompts": []}, {"runs": []}, {"runs": [{"folder": "/docs"}]}):
        (tmp_path / "run.json").write_text(json.dumps(facts | changed))
        with pytest.raises(NotARun):
            read_run(tmp_path / "run.json")


def test_runs_of_different_tasks_are_merged() -> None:
    run = merge_runs([made_up_run("fact"), made_up_run("code", "list")])
    assert run.tasks == ("fact", "code", "list")
    assert [len(run.prompts_of(task)) for task in run.tasks] == [4, 4, 4]
    assert [facts.tasks for facts in run.runs] == [("fact",), ("code", "list")]


def test_runs_of_different_seeds_or_folders_give_more_prompts_of_a_task() -> None:
    run = merge_runs([made_up_run("fact"), made_up_run("fact", seed=2), made_up_run("fact", docs="/other")])
    assert len(run.prompts_of("fact")) == 12


def test_the_same_prompts_twice_are_refused() -> None:
    with pytest.raises(RunsDiffer, match="those of: fact"):
        merge_runs([made_up_run("fact", "two"), made_up_run("fact", num_prompts=2)])


def test_runs_of_different_machines_or_settings_are_refused() -> None:
    with pytest.raises(RunsDiffer, match="same machine"):
        merge_runs([made_up_run("fact"), on_another_machine(made_up_run("two"))])
    other = replace(made_up_run("two"), setup=replace(SETUP, passage_tokens=500))
    with pytest.raises(RunsDiffer, match="same passage tokens, and not 300 and: 500"):
        merge_runs([made_up_run("fact"), other])


def test_a_summary_compares_with_the_baseline_and_with_full_prefill() -> None:
    (task,) = summarize_run(made_up_run("fact"))
    assert (task.task, task.num_prompts, task.prompt_tokens) == ("fact", 4, 1300)
    assert task.accuracy == Interval(1.0, 1.0, 1.0)
    baseline, none, question = task.variants
    assert baseline.kl_mean.value == pytest.approx(1.0)
    assert baseline.kl_mean.low < 1.0 < baseline.kl_mean.high
    assert baseline.kl_ratio == Interval(1.0, 1.0, 1.0)
    assert none.kl_ratio is not None
    assert none.repair_ratio is not None
    assert (none.kl_ratio.value, none.repair_ratio.value) == (pytest.approx(0.5), pytest.approx(0.1))
    assert none.accuracy_ratio is not None
    assert none.accuracy_ratio.value == 0.5
    assert none.ttft_ratio is not None
    assert none.ttft_ratio.value == pytest.approx(0.05)
    assert question.accuracy == Interval(1.0, 1.0, 1.0)


def test_a_task_without_right_answers_has_no_accuracy() -> None:
    (task,) = summarize_run(made_up_run("summary"))
    assert task.accuracy is None
    assert {(variant.accuracy, variant.accuracy_ratio) for variant in task.variants} == {(None, None)}


def test_without_the_baseline_there_are_no_ratios_to_it() -> None:
    run = made_up_run("fact")
    prompts = tuple(replace(prompt, variants=prompt.variants[1:]) for prompt in run.prompts)
    (task,) = summarize_run(replace(run, prompts=prompts))
    assert [variant.kl_ratio for variant in task.variants] == [None, None]
