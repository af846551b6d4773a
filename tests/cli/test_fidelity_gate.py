"""The fidelity gate in `index`, `ask` and `stats`: checked once, told aloud when it fails, never a reason to stop."""

import json
import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import hidden_window
import pytest
from desks import Desk, limit_file_size, prose
from test_index_again import imported_modules
from typer.testing import CliRunner

from kvboost_cli.main import app
from kvboost_cli.pipelines.repairing import effective_name

QUESTION = "Who is on call, and when is the week handed over?"
KEEPING = "keeping what was computed, so that the next ask finds it"
ANNOUNCEMENT = "checking once that this model can reuse KV on this machine"


def ask(*documents: str) -> list[str]:
    return ["ask", QUESTION, *(part for name in documents for part in ("-d", name))]


def test_a_new_model_is_checked_by_index_and_no_more_after_that(bare_desk: Desk) -> None:
    new = bare_desk.with_env(XDG_CACHE_HOME=str(bare_desk.root / "cache"))
    page = str(new.docs / "access.md")
    first = new.run("index", page)
    assert first.returncode == 0
    assert first.stderr.splitlines()[0] == ANNOUNCEMENT
    fidelity = new.facts("stats")["fidelity"]
    assert (fidelity["passed"], fidelity["reason"], fidelity["repair"]) == (True, None, effective_name("auto"))
    assert fidelity["kl_mean"] < 0.5
    told = new.facts(*ask("access.md"))
    assert told["startup"]["gate_s"] == 0.0
    other_store = replace(new, env=new.env | {"KVBOOST_STORE": str(new.root / "other")})
    again = other_store.run("index", page, "--json")
    assert ANNOUNCEMENT not in again.stderr, "the user's cache knows"
    assert other_store.facts("stats")["fidelity"] == fidelity


def test_a_new_machine_is_checked_by_ask_before_the_clock_starts(desk: Desk) -> None:
    """Another machine stands for itself: this store was never used in it, and its user's cache is empty."""
    other = desk.with_env(XDG_CACHE_HOME=str(desk.root / "cache"), KVBOOST_STORE=str(desk.root / "made by ask"))
    page = str(other.docs / "access.md")
    first = other.run("ask", QUESTION, "-d", page)
    assert ANNOUNCEMENT not in first.stderr, "there is nothing to reuse in a store that is made now"
    assert other.facts("stats")["fidelity"] == {}
    assert "not checked yet" in other.run("stats").stdout
    full = other.facts("ask", QUESTION, "-d", page, "--no-cache")
    assert full["startup"]["gate_s"] == 0.0, "full prefill reuses nothing"
    second = other.run("ask", QUESTION, "-d", page)
    assert ANNOUNCEMENT in second.stderr
    assert "checking the model once" in second.stderr
    (known,) = (desk.root / "cache" / "kvboost" / "fidelity").iterdir()
    known.write_bytes(b"{}")
    assert other.facts("ask", QUESTION, "-d", page)["startup"]["gate_s"] == 0.0, "the store knows"


def test_questions_that_make_their_store_check_the_model_before_they_reuse_of_it(failing: Desk) -> None:
    new = failing.with_env(XDG_CACHE_HOME=str(failing.root / "no cache"))
    names = (part for name in ("access.md", "on-call.md") for part in ("-d", str(new.docs / name)))
    done = new.run("ask", "-f", "-", *names, "--json", "-q", stdin=f"{QUESTION}\nAnd since when?\nWhy?\n")
    assert done.returncode == 0
    warned = "kvboost: warning: stored chunks are not reused, since this model failed its check: "
    assert [line.startswith(warned) for line in done.stderr.splitlines()] == [True], "told once"
    first, *later = (json.loads(line)["tokens"] for line in done.stdout.splitlines())
    assert first["exact"] == 0
    assert [tokens["reused"] + tokens["repaired"] for tokens in later] == [0, 0]
    assert all(tokens["exact"] > 0 for tokens in later), "what is exact is still taken"


def test_a_model_that_fails_is_told_aloud_and_answers_without_reuse(failing: Desk) -> None:
    indexed = failing.run("index", "docs", "-q")
    assert indexed.returncode == 0
    warning = "kvboost: warning: chunks that are indexed now will not be reused, since this model failed its check: "
    assert indexed.stderr.startswith(f"{warning}with reuse the KL is ")
    fidelity = failing.facts("stats")["fidelity"]
    assert fidelity["passed"] is False
    assert fidelity["reason"] == f"with reuse the KL is {fidelity['kl_mean']:.2f} nats, and 0.5 is allowed"
    assert f"failed, {fidelity['reason']}" in failing.run("stats").stdout
    done = failing.run(*ask("access.md", "on-call.md"), "-q")
    warned = "kvboost: warning: stored chunks are not reused, since this model failed its check: "
    assert (done.returncode, done.stderr) == (0, f"{warned}{fidelity['reason']}; see `kvboost doctor`\n")
    told = failing.facts(*ask("access.md", "on-call.md"), "--verify")
    assert told["tokens"]["reused"] == told["tokens"]["repaired"] == 0
    assert told["tokens"]["exact"] > 0, "what is exact is still taken"
    assert "content" not in {document["hit"] for document in told["documents"]}
    loud = failing.run(*ask("access.md", "on-call.md"))
    assert KEEPING not in loud.stderr, "what is refused is stored all the same"


def test_what_was_read_from_disk_is_said_to_be_kept(desk: Desk) -> None:
    page = str(desk.write("new.md", prose(1)))
    assert KEEPING in desk.run(*ask(page)).stderr
    assert KEEPING not in desk.run(*ask(page)).stderr


@pytest.fixture
def odd(bare_desk: Desk) -> Desk:
    """A desk where transformers' own passes attend otherwise than the model's config says, and kvboost's do not."""
    start = bare_desk.write("start/sitecustomize.py", "import hidden_window\n\nhidden_window.hide_window()\n")
    paths = os.pathsep.join([str(start.parent), str(Path(hidden_window.__file__).parent)])
    desk = bare_desk.with_env(PYTHONPATH=paths, XDG_CACHE_HOME=str(bare_desk.root / "cache"))
    indexed = desk.run("index", desk.docs / "access.md", desk.docs / "on-call.md", "-q")
    assert indexed.returncode == 0
    warning = "kvboost: warning: chunks that are indexed now will not be reused, since this model failed its check: "
    assert indexed.stderr.startswith(f"{warning}with all computed again ")
    return desk


def test_a_model_that_computes_otherwise_than_kvboost_is_answered_by_full_prefill(odd: Desk) -> None:
    warned = "kvboost: warning: full prefill is used, since this model failed its check: "
    reason = odd.facts("stats")["fidelity"]["reason"]
    done = odd.run(*ask("access.md", "on-call.md"), "-q")
    assert (done.returncode, done.stderr) == (0, f"{warned}{reason}; see `kvboost doctor`\n")
    told = odd.facts(*ask("access.md", "on-call.md"), "--verify")
    assert told["tokens"]["prefilled"] == told["tokens"]["prompt"]
    assert told["repair"] == {"strategy": "none", "ratio": None}
    assert told["verify"]["kl_mean"] < 1e-6
    assert "until then full prefill is used" in odd.run("doctor").stdout


def test_nothing_that_such_a_model_computed_is_kept(odd: Desk) -> None:
    page = str(odd.write("new.md", prose(1)))
    empty = odd.with_env(KVBOOST_STORE=str(odd.root / "empty"))
    for desk, num_documents in ((odd, 2), (empty, 0)):
        done = desk.run(*ask(page))
        assert "kvboost: warning: full prefill is used" in done.stderr, "it is known without a check"
        assert KEEPING not in done.stderr
        facts = desk.facts("stats")
        assert (facts["documents"], facts["asks"]["count"]) == (num_documents, 0)


def test_the_seconds_of_an_index_run_are_without_the_check(bare_desk: Desk) -> None:
    """In this process, where torch is imported already: what the run does not count is the check and little else."""
    new = bare_desk.with_env(XDG_CACHE_HOME=str(bare_desk.root / "cache"))
    started = perf_counter()
    done = CliRunner().invoke(app, ["index", str(new.docs / "access.md"), "--json"], env=new.env)
    elapsed_s = perf_counter() - started
    assert ANNOUNCEMENT in done.stderr
    assert json.loads(done.stdout)["seconds"] + new.facts("stats")["fidelity"]["seconds"] < elapsed_s


def test_a_check_that_cannot_be_run_costs_the_reuse_and_not_the_answer(desk: Desk) -> None:
    """No file may grow as large as a throwaway store needs."""
    new = desk.with_env(XDG_CACHE_HOME=str(desk.root / "cache"), KVBOOST_STORE=str(desk.root / "new"))
    page = str(new.docs / "access.md")
    assert new.run("ask", QUESTION, "-d", page, "-q").returncode == 0
    size = (desk.root / "new" / "data.mdb").stat().st_size
    done = new.run("ask", QUESTION, "-d", page, "-q", preexec_fn=limit_file_size(min(size, 100_000)))
    assert done.stdout.strip()
    assert "kvboost: warning: stored chunks are not reused: whether this model can reuse KV" in done.stderr
    assert "Traceback" not in done.stderr
    assert new.facts("ask", QUESTION, "-d", page)["startup"]["gate_s"] > 0, "checked as soon as it can be"


def test_stats_starts_without_torch(desk: Desk) -> None:
    assert imported_modules(desk, "stats") & {"torch", "transformers", "numpy"} == set()
