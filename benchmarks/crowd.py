"""What asks at once cost each other: python -m benchmarks.crowd [--asks N] [--repeats N]

Real processes of the default model on all cores, one alone and several at once, with threads that wait as kvboost lets
them and as OpenMP does by itself. The time is that of the last one to end, from the start of all.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from kvboost_cli.threads import NUM_SPINS, SPIN_VARIABLE

SCRIPT = Path(sys.executable).with_name("kvboost")
HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook"
QUESTION = "How many days does a buoy last without sun?"
GNU_SPINS = 300_000
"""GNU OpenMP's own, where no more threads than cores are used."""


def ask_at_once(count: int, store: Path, num_spins: int) -> float:
    """Seconds until so many asks, started together, have all ended."""
    command = [
        SCRIPT,
        "ask",
        QUESTION,
        "-d",
        "buoys.md",
        "-d",
        "access.md",
        "--max-tokens",
        "16",
        "--store",
        store,
        "-q",
    ]
    environment = os.environ | {SPIN_VARIABLE: str(num_spins)}
    started = perf_counter()
    asks = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(count)]
    codes = [ask.wait() for ask in asks]
    if any(codes):
        raise SystemExit(f"an ask failed: {codes}")
    return perf_counter() - started


def main() -> None:
    """Index, warm up, measure in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asks", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    kinds = {"kvboost": NUM_SPINS, "OpenMP by itself": GNU_SPINS}
    taken: dict[tuple[str, int], list[float]] = {(kind, count): [] for kind in kinds for count in (1, options.asks)}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        subprocess.run([SCRIPT, "index", HANDBOOK, "--store", store, "-q"], check=True)
        ask_at_once(1, store, NUM_SPINS)
        for _ in range(options.repeats):
            for kind, count in taken:
                taken[kind, count].append(ask_at_once(count, store, kinds[kind]))
    for (kind, count), seconds in taken.items():
        print(f"{kind}, {count} at once: {median(seconds):.1f} s (from {min(seconds):.1f} to {max(seconds):.1f})")


if __name__ == "__main__":
    main()
