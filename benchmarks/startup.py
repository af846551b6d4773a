"""What a user waits for an answer's first token, from the command typed: python -m benchmarks.startup [--repeats N]

Real processes, in turn with one that imports torch and transformers and nothing else. The files are in the system's
cache, and the model's weights are hashed and its fidelity gate is passed, as for any ask but the first. An ask is timed
from its start to the first byte of its JSON, which comes right behind its only token.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

SCRIPT = Path(sys.executable).with_name("kvboost")
HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook"
REFERENCE = (sys.executable, "-c", "import torch, transformers; print()")
QUESTION = "How many days does a buoy last without sun?"


@dataclass(frozen=True)
class Turn:
    """One run of each, in seconds to its first byte; what the ask told of itself is in the same unit."""

    reference_s: float
    help_s: float
    ask_s: float
    import_s: float
    model_load_s: float
    ttft_s: float

    @property
    def rest_s(self) -> float:
        """Of the ask: Python, the command line, kvboost's own modules, the store, the tokenizer."""
        return self.ask_s - self.import_s - self.model_load_s - self.ttft_s


def time_to_first_byte(command: Sequence[str | Path]) -> tuple[float, bytes]:
    """Seconds from the start of a process to the first byte that it prints; and all that it prints."""
    started = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None, "it is a pipe"
        first = process.stdout.read(1)
        seconds = perf_counter() - started
        output = first + process.stdout.read()
    if process.returncode != 0:
        raise SystemExit(f"failed with {process.returncode}: {' '.join(map(str, command))}")
    return seconds, output


def run_turn(store: Path) -> Turn:
    ask = [SCRIPT, "ask", QUESTION, "-d", "buoys.md", "--max-tokens", "1", "--store", store, "--json"]
    reference_s, _ = time_to_first_byte(REFERENCE)
    ask_s, output = time_to_first_byte(ask)
    help_s, _ = time_to_first_byte([SCRIPT, "--help"])
    told = json.loads(output)
    return Turn(
        reference_s,
        help_s,
        ask_s,
        told["startup"]["import_s"],
        told["startup"]["model_load_s"],
        told["ttft"]["total_s"],
    )


def report(turns: Sequence[Turn]) -> str:
    """Medians; a ratio is the median of the turns' own ones."""

    def line(what: str, name: str) -> str:
        seconds = median(getattr(turn, name) for turn in turns)
        ratio = median(getattr(turn, name) / turn.reference_s for turn in turns)
        return f"{what:<34}{seconds:6.2f} s  {ratio:5.2f}"

    lines = [
        line("import torch, transformers", "reference_s"),
        line("kvboost ask, to the first token", "ask_s"),
        line("  importing torch and transformers", "import_s"),
        line("  loading the model", "model_load_s"),
        line("  time to first token", "ttft_s"),
        line("  the rest", "rest_s"),
        line("kvboost --help", "help_s"),
    ]
    return "\n".join([f"medians of {len(turns)}, and their ratio to the first line", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description="time from the command typed to the first token")
    parser.add_argument("--repeats", type=int, default=7, metavar="N")
    parser.add_argument("--store", type=Path, help="a store that has the handbook of examples/; default: one is made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = arguments.store or Path(directory) / "store"
        if arguments.store is None:
            subprocess.run([SCRIPT, "index", HANDBOOK / "buoys.md", "--store", store, "--quiet"], check=True)
        run_turn(store)  # brings all files into the system's cache
        print(report([run_turn(store) for _ in range(arguments.repeats)]))


if __name__ == "__main__":
    main()
