"""What benchmarks share: facts about the machine, and a workspace in a store that is thrown away."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ..model.handle import ModelHandle
from ..model.machine import cpu_name
from ..pipelines.workspace import MakeHandle, Workspace, WorkspaceRequest, open_workspace


@dataclass(frozen=True)
class BenchModel:
    """Which model to measure and how it encodes documents; None and ``auto`` leave it to machine and recipe."""

    make_handle: MakeHandle
    model: str | None = None
    dtype: str = "auto"
    bits: int | None = None
    contexts: int | None = None
    exact: bool | None = None


@contextmanager
def throwaway_workspace(bench: BenchModel) -> Iterator[Workspace]:
    """A workspace whose store is new, empty, and gone afterwards."""
    with TemporaryDirectory(prefix="kvboost-bench-") as folder:
        request = WorkspaceRequest(
            Path(folder) / "store", bench.model, bench.dtype, bench.bits, bench.contexts, bench.exact
        )
        with open_workspace(request, bench.make_handle, create=True) as workspace:
            yield workspace


def describe_machine() -> dict[str, object]:
    """The facts that a figure needs beside it."""
    return {
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def describe_model(handle: ModelHandle) -> dict[str, object]:
    """Model and machine, as a run's JSON has them."""
    return {
        "model": {"name": handle.name, "device": str(handle.device), "dtype": handle.dtype},
        "machine": describe_machine(),
    }


def describe_setup(workspace: Workspace) -> dict[str, object]:
    """The same, and how documents are encoded."""
    return {**describe_model(workspace.handle), "recipe": workspace.recipe.facts}
