"""Commands that change the store, killed at random moments: it stays whole and right, and work is not done twice."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from desks import Desk, prose
from trials import NUM_DOCUMENTS, Opener, Sizes, ask, hits, is_right

from kvboost_cli.pipelines.plan import Hit

SEED = 11
FULL_RUN_EVERY = 10


@dataclass
class Trial:
    """A desk on which things happen, and what is known of it; ``edition`` gives each edit a text of its own."""

    desk: Desk
    chance: random.Random
    edition: int = 1000
    died: Counter[str] = field(default_factory=Counter)

    def kill(self, *args: str, longest_s: float) -> None:
        """Start the script and kill it at a random moment, if it has not ended before."""
        process = self.desk.start(*args)
        time.sleep(self.chance.uniform(0.2, longest_s))
        process.kill()
        process.communicate()
        outcome = "killed" if process.returncode == -signal.SIGKILL else "had ended"
        assert outcome == "killed" or process.returncode in (0, 3), process.returncode
        self.died[f"{args[0]} {outcome}"] += 1

    def edit(self, name: str) -> None:
        """Give a document another text."""
        self.edition += 1
        self.desk.write(f"docs/{name}", prose(self.edition))

    def is_sound(self) -> None:
        """The store opens and `doctor --check` finds nothing."""
        if (self.desk.store / "kvboost-store.json").exists():
            told = self.desk.facts("doctor", "--check")
            assert told["healthy"], told

    def num_stored(self) -> int:
        """Documents in the store; none without one."""
        if not (self.desk.store / "kvboost-store.json").exists():
            return 0
        documents: int = self.desk.facts("stats")["documents"]
        return documents


def test_killed_at_any_moment_the_store_is_whole_and_right(
    desk: Desk, tiny_llama: Path, shared_cache: Path, sizes: Sizes
) -> None:
    trial = Trial(desk, random.Random(SEED))
    longest_s = {kind: _duration(desk, kind) for kind in RUNS}
    for number in range(sizes.kills):
        kind = trial.chance.choice(("index", "index", "ask", "prune", "compact"))
        ACTIONS[kind](trial, longest_s[kind])
        trial.is_sound()
        if number % FULL_RUN_EVERY == 0:
            _finish(trial)
    _finish(trial)
    print(dict(trial.died))
    assert any(outcome.endswith(" killed") for outcome in trial.died)
    with Opener.of(tiny_llama, shared_cache).open(desk.store) as workspace:
        for path in sorted(desk.docs.iterdir()):
            stitched = ask(workspace, [path])
            assert set(hits(stitched)) == {Hit.EXACT}, path
            assert is_right(workspace, stitched), path


def _duration(desk: Desk, kind: str) -> float:
    """How long an undisturbed run takes, so that a random moment is within one."""
    if kind != "index":
        desk.run("index", "docs", "-q")
    started = time.monotonic()
    desk.run(*RUNS[kind])
    return time.monotonic() - started


def _kill_index(trial: Trial, longest_s: float) -> None:
    """A third of the documents is edited; what was stored before the kill stays stored."""
    for number in trial.chance.sample(range(NUM_DOCUMENTS), NUM_DOCUMENTS // 3):
        trial.edit(f"{number:02}.md")
    before = trial.num_stored()
    trial.kill("index", "docs", "-q", longest_s=longest_s)
    assert trial.num_stored() >= before


def _kill_ask(trial: Trial, longest_s: float) -> None:
    """An edited document makes the ask write back."""
    name = f"{trial.chance.randrange(NUM_DOCUMENTS):02}.md"
    trial.edit(name)
    trial.kill("ask", "Which vessel waited?", "-d", f"docs/{name}", longest_s=longest_s)


def _kill_prune(trial: Trial, longest_s: float) -> None:
    """A document is gone for a while."""
    path = trial.desk.docs / f"{trial.chance.randrange(NUM_DOCUMENTS):02}.md"
    text = path.read_bytes()
    path.unlink()
    trial.kill("prune", longest_s=longest_s)
    path.write_bytes(text)


def _kill_compact(trial: Trial, longest_s: float) -> None:
    """What edits left behind is taken out."""
    trial.kill("compact", "-q", longest_s=longest_s)


def _finish(trial: Trial) -> None:
    """A run that is not disturbed encodes what the store lacks, and nothing besides."""
    planned = trial.desk.facts("index", "docs", "--dry-run")
    done = trial.desk.facts("index", "docs")
    assert done["chunks"]["new"] == planned["chunks"]["new"]
    assert done["documents"]["unchanged"] == planned["documents"]["unchanged"]
    again = trial.desk.facts("index", "docs")
    assert (again["chunks"]["new"], again["documents"]["unchanged"]) == (0, NUM_DOCUMENTS)


ACTIONS: dict[str, Callable[[Trial, float], None]] = {
    "index": _kill_index, "ask": _kill_ask, "prune": _kill_prune, "compact": _kill_compact,
}  # fmt: skip
RUNS = {
    "index": ("index", "docs", "-q"), "ask": ("ask", "Who?", "--top-k", "2"), "prune": ("prune",),
    "compact": ("compact",),
}  # fmt: skip
