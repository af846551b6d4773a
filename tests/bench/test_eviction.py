"""`kvboost bench eviction`: traces are what they are said to be, replays are real, and importance saves most time."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kvboost_cli.bench.eviction_results import EvictionRequest, EvictionRun
from kvboost_cli.bench.replay import POLICIES, Replay, replay
from kvboost_cli.bench.trace import Arrival, Question, TraceRequest, make_trace

REQUEST = TraceRequest(num_documents=100, num_questions=250, skew=1.0, seed=4)


def test_a_trace_is_skewed_wants_only_what_is_there_and_comes_again() -> None:
    request = TraceRequest(num_documents=100, num_questions=2000, skew=1.3, seed=4)
    trace = make_trace(request)
    assert trace == make_trace(request)
    assert trace.events != make_trace(TraceRequest(100, 2000, 1.3, seed=5)).events
    there: set[int] = set()
    about: Counter[int] = Counter()
    for event in trace.events:
        if isinstance(event, Arrival):
            there.add(event.document)
            continue
        assert {document for (document, _), _ in event.wanted} <= there
        assert sum(mass for _, mass in event.wanted) < 1
        about[event.wanted[0][0][0]] += 1
    assert there == set(range(100))
    assert sum(count for _, count in about.most_common(10)) > 2000 / 3
    assert [event.at for event in trace.events] == sorted(event.at for event in trace.events)
    assert sum(isinstance(event, Question) for event in trace.events) == 2000


def test_importance_saves_more_time_than_lru_within_the_budget(tmp_path: Path) -> None:
    trace = make_trace(REQUEST)
    found = {}
    for policy in ("importance", "LRU"):
        (tmp_path / policy).mkdir()
        found[policy] = replay(trace, policy, REQUEST.seed, 0.2, tmp_path / policy)
    assert found["importance"].tokens_hit > 1.1 * found["LRU"].tokens_hit
    assert found["importance"].tokens_wanted == found["LRU"].tokens_wanted
    assert all(one.largest_bytes <= 1.02 * one.budget_bytes and one.num_evicted for one in found.values())


def made(policy: str, seed: int, tokens_hit: int) -> Replay:
    return Replay(policy, seed, 0.5, 1000, 10, 5, 1000, tokens_hit, 7, 900)


def test_figures_pair_policies_by_trace_and_leave_out_what_was_cut_short() -> None:
    request = EvictionRequest(100, 250, 1.0, (0.5,), 3, 1, tokens_per_s=100.0)
    replays = [made(policy, seed, 100 * seed + (100 if policy == "importance" else 0))
               for seed in (1, 2) for policy in POLICIES]  # fmt: skip
    run = EvictionRun(request, (*replays, made("importance", 3, 1000)), 1.0, complete=False)
    best, *_, lru, _lfu = run.summaries
    assert (best.policy, lru.policy) == ("importance", "LRU")
    assert best.saved_share.value == pytest.approx(0.25)
    assert best.saved_s.value == pytest.approx(2.5)
    assert (best.gain_s.value, best.gain_s.low, best.gain_s.high) == pytest.approx((1.0, 1.0, 1.0))
    assert lru.gain_s.value == 0
    assert best.largest_share == 0.9


def test_the_command_prints_json_and_draws(
    kvboost: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    picture = tmp_path / "eviction.svg"
    small = ("--documents", "60", "--questions", "20", "--budgets", "25", "--repeats", "1")
    done = kvboost("bench", "eviction", *small, "--plot", picture, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [one["policy"] for one in facts["policies"]] == list(POLICIES)
    assert len(facts["replays"]) == 4
    assert facts["complete"] is True
    assert "<svg" in picture.read_text()
    refused = kvboost("bench", "eviction", "--budgets", "25,x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "percents" in refused.stderr
