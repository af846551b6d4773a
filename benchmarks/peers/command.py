"""What both commands share: options, and the report of a run."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from kvboost_cli.bench.common import describe_machine

from .results import Row, markdown

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"

STARTED = perf_counter()


@dataclass(frozen=True)
class Options:
    """What to measure: prompt sizes in tokens, repeats of each, and the documents."""

    sizes: tuple[int, ...]
    repeats: int
    docs: Path
    json: bool


@dataclass(frozen=True)
class SizeResult:
    """One prompt size: its tokens, the rows of its table, and ratios by what they tell."""

    prompt_tokens: int
    rows: list[Row]
    ratios: dict[str, float]


def parse_options(description: str | None, sizes: str, arguments: Sequence[str] | None = None) -> Options:
    """The command's options; ``sizes`` is the default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=sizes, help="prompt sizes in tokens, about (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="of each measurement (default: %(default)s)")
    parser.add_argument("--docs", type=Path, default=HANDBOOK, help="a folder (default: the example handbook)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    told = parser.parse_args(arguments)
    return Options(tuple(int(size) for size in told.sizes.split(",")), told.repeats, told.docs, told.json)


def say(line: str) -> None:
    """Progress, on standard error, with the seconds since the start."""
    print(f"{perf_counter() - STARTED:4.0f} s  {line}", file=sys.stderr, flush=True)


def report(options: Options, peer: dict[str, object], results: Sequence[SizeResult]) -> None:
    """Print what was measured."""
    facts = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": describe_machine(), "peer": peer}
    if options.json:
        print(json.dumps({**facts, "sizes": [asdict(result) for result in results]}, indent=2))
        return
    print(json.dumps(facts))
    for result in results:
        print(f"\n{result.prompt_tokens:,} prompt tokens\n\n{markdown(result.rows)}\n")
        for told, value in result.ratios.items():
            print(f"{told}: {value:.1f}")
