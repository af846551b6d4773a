"""A scripted day with `kvboost prewarm`: python benchmarks/day.py

Morning: the handbook is indexed and asked about in several orders. Then a document is edited, one is deleted and one is
new. The line that `kvboost cron print` gives is run with the environment that cron gives. Evening: the same orders are
asked again. What should be exact has to be exact, and nothing of the old text may be left in any record, or it fails.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from kvboost_cli.model.catalog import resolve_model
from kvboost_cli.model.codec import TextCodec
from kvboost_cli.settings import user_model_dir
from store import ChunkStore

KVBOOST = Path(sys.executable).with_name("kvboost")
HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook"
CRON = {"HOME": os.environ["HOME"], "LOGNAME": "cron", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}

ORDERS = (
    ("backups.md", "services.md", "buoys.md"),
    ("buoys.md", "on-call.md", "access.md", "releases.md"),
    ("on-call.md", "reviews.md", "buoys.md"),
)
QUESTION, EDITED = "How many days does a buoy last without sun?", "buoys.md"
OLD_FACT, NEW_FACT = "19 days", "27 days"
DELETED, NEW = "incidents.md", "moorings.md"
NEW_TEXT = (
    "# Moorings\n\nA mooring is a chain of 60 metres and a concrete block of 900 kilograms. It is renewed each May.\n"
)


@dataclass(frozen=True)
class Asked:
    """An order's hits, its exact and all prompt tokens, and the median TTFT in seconds."""

    hits: tuple[str, ...]
    num_exact: int
    num_prompt: int
    ttft_s: float


@dataclass(frozen=True)
class Day:
    """A folder of documents with a store."""

    root: Path
    repeats: int

    @property
    def docs(self) -> Path:
        """The documents."""
        return self.root / "handbook"

    def run(self, *arguments: str, code: int = 0) -> str:
        """What one run of the script prints; it has to end with ``code``."""
        done = subprocess.run(
            [KVBOOST, *arguments, "--store", self.root / "store"], capture_output=True, text=True, check=False
        )
        if done.returncode != code:
            raise SystemExit(f"kvboost {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def facts(self, *arguments: str) -> Any:
        """The JSON object of a run."""
        return json.loads(self.run(*arguments, "--json"))

    def ask(self, order: tuple[str, ...]) -> Asked:
        """The question over documents in an order, ``repeats`` times."""
        names = [word for name in order for word in ("-d", str(self.docs / name))]
        runs = [self.facts("ask", QUESTION, *names, "--max-tokens", "24") for _ in range(self.repeats)]
        tokens = runs[-1]["tokens"]
        return Asked(
            tuple(document["hit"] for document in runs[0]["documents"]),
            tokens["exact"],
            tokens["prompt"],
            statistics.median(run["ttft"]["total_s"] for run in runs),
        )

    def stored_texts(self) -> list[str]:
        """The text of every record that a document or an order has, read back from its token ids."""
        codec = TextCodec(resolve_model(None, user_model_dir()).path)
        with ChunkStore.open(self.root / "store", readonly=True) as store, store.snapshot() as snapshot:
            entries = [*snapshot.documents(), *snapshot.chains()]
            headers = [snapshot.position_header(key) for entry in entries for key in entry.position_keys]
            headers += [snapshot.header(key) for entry in snapshot.documents() for key in entry.chunk_keys]
            require(None not in headers, "a record is not there")
            return [codec.text(header.token_ids) for header in headers if header is not None]

    def change(self) -> None:
        """What people do with documents in a day."""
        text = (self.docs / EDITED).read_text(encoding="utf-8")
        (self.docs / EDITED).write_text(text.replace(OLD_FACT, NEW_FACT), encoding="utf-8")
        (self.docs / DELETED).unlink()
        (self.docs / NEW).write_text(NEW_TEXT, encoding="utf-8")

    def run_cron_line(self) -> str:
        """The installed line's command, with nothing of this environment; what its log tells."""
        log = self.root / "prewarm.log"
        line = self.run("cron", "print", "--log", str(log))
        command = line.split(None, 5)[5].replace(r"\%", "%")
        subprocess.run(["/bin/sh", "-c", command], env=CRON, cwd="/", check=True)
        return log.read_text(encoding="utf-8")

    def idle_s(self) -> float:
        """The median time of a whole run that has nothing to do, start and end of the process included."""
        seconds = []
        for _ in range(5):
            started = perf_counter()
            told = self.run("prewarm")
            seconds.append(perf_counter() - started)
            require(told.startswith("nothing to do"), f"prewarm still had something to do: {told}")
        return statistics.median(seconds)


def require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SystemExit(f"the day went wrong: {otherwise}")


def show(title: str, asked: list[Asked]) -> None:
    print(f"\n{title}")
    for order, facts in zip(ORDERS, asked, strict=True):
        print(
            f"  {facts.ttft_s * 1000:6.0f} ms  {facts.num_exact:5,} of {facts.num_prompt:5,} tokens exact  "
            + ", ".join(f"{name} {hit}" for name, hit in zip(order, facts.hits, strict=True))
        )


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder), repeats)
        shutil.copytree(HANDBOOK, day.docs)
        day.run("index", str(day.docs))
        morning = [day.ask(order) for order in ORDERS]
        show("morning: TTFT, exact tokens, hits", morning)
        day.change()
        print(f"\nedited {EDITED}, deleted {DELETED}, wrote {NEW}; the cron line:\n")
        print(day.run_cron_line(), end="")
        evening = [day.ask(order) for order in ORDERS]
        show("evening", evening)
        for facts in evening:
            require(set(facts.hits) == {"exact"}, f"not all is exact: {facts.hits}")
        texts = day.stored_texts()
        require(any(NEW_FACT in text for text in texts), "the new text is not in the store")
        require(not any(OLD_FACT in text for text in texts), "the old text is still in the store")
        day.run("ask", QUESTION, "-d", str(day.docs / DELETED), code=2)
        falls = [after.ttft_s / before.ttft_s for before, after in zip(morning, evening, strict=True)]
        require(max(falls) < 1, f"TTFT did not fall everywhere: {falls}")
        print(f"\nTTFT in the evening: {', '.join(f'{fall:.0%}' for fall in falls)} of the morning's")
        print(f"prewarm with nothing to do: {day.idle_s():.2f} s in all")


if __name__ == "__main__":
    main()
