"""What the commands of ``kvboost bench`` share."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from ..bench.common import BenchModel
    from ..bench.sizes import PromptSize
    from ..bench.stand import Stand
    from ..model.handle import ModelHandle
    from ..settings import Settings

Docs = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where the text comes from; else Python's own asyncio.")
]
Repeats = Annotated[int, typer.Option(metavar="N", min=1, max=99, help="How often each figure is measured.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Another seed, other text and orders.")]
Bits = Annotated[int | None, typer.Option(metavar="4|8|16", help="Bits per stored number.")]
Contexts = Annotated[int | None, typer.Option(metavar="M", help="Contexts to average over.")]

Measured = TypeVar("Measured")


def bench_model(settings: "Settings", handle: "ModelHandle") -> "BenchModel":
    """The settings' recipe, with one model for all stores."""
    from ..bench.common import BenchModel

    return BenchModel(
        lambda _model, _dtype: handle,
        settings.model,
        settings.dtype,
        settings.bits,
        settings.contexts,
        settings.exact,
    )


def docs_folder(docs: Path | None) -> Path:
    """The folder of documents, absolute."""
    from ..bench.speed_prompts import default_folder

    return default_folder() if docs is None else docs.absolute()


def read_sizes(text: str) -> "tuple[PromptSize, ...]":
    """The sizes that ``--sizes`` lists."""
    from ..bench.sizes import parse_sizes

    return parse_sizes(text)


def index_stand_aloud(stand: "Stand", name: str, *, quiet: bool) -> None:
    """Index a stand's documents, and show how far that is."""
    from .. import console
    from ..bench.stand import index_stand
    from ..progress import StepProgress

    with console.step_progress(name, quiet=quiet) as show:
        for done, _event in enumerate(index_stand(stand), 1):
            show(StepProgress(done, stand.num_to_index, "documents"))


def take_aloud(
    measured: "Iterable[Measured | None]", total: int, name: str, into: list[Measured], *, quiet: bool
) -> None:
    """Collect what is measured as it comes, without the None of those that warm up, and show how far that is."""
    from .. import console
    from ..progress import StepProgress

    with console.step_progress(name, quiet=quiet) as show:
        for done, one in enumerate(measured, 1):
            if one is not None:
                into.append(one)
            show(StepProgress(done, total, "turns"))


@dataclass
class Interruption:
    """Whether Ctrl-C ended the measuring; what was measured before is shown all the same."""

    happened: bool = False


@contextmanager
def until_interrupted() -> Iterator[Interruption]:
    """Ctrl-C ends the block, and not the program."""
    interruption = Interruption()
    try:
        yield interruption
    except KeyboardInterrupt:
        interruption.happened = True
