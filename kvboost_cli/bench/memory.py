"""Peak memory of one ``kvboost ask``, seen from outside: a process of its own, and the system's account of it.

The account is the largest resident set. It counts what is imported and what is mapped from files: weights and records.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.load import LoadedModel
from ..pipelines.plan import Hit
from ..pipelines.workspace import Workspace
from . import watcher
from .errors import WatchedRunFailed
from .speed_prompts import QUESTION

PYTHON = (sys.executable, "-P")
"""Without the working directory in the module path, where a user may have a ``store.py``."""

COMMAND_LINE = "from kvboost_cli.main import run; run()"
IMPORTS = "import kvboost_cli.model.load"
PREFILL = "import sys; from kvboost_cli.bench.memory import prefill_alone; prefill_alone(*sys.argv[1:])"
SETTINGS_PREFIX = "KVBOOST_"


@dataclass(frozen=True)
class Peak:
    """A strategy's largest resident set, and by weights and cache what of it is not imports."""

    strategy: str
    peak_bytes: int
    ratio: float


@dataclass(frozen=True)
class MemoryUse:
    """One prompt: what it needs at least, and what was taken.

    ``cache_bytes`` is one KV cache of the prompt in the model's dtype. ``imports_bytes`` is the peak of a process that
    only imports torch and transformers; ``full_prefill_bytes`` that of plain transformers on as many tokens.
    """

    size: str
    prompt_tokens: int
    weights_bytes: int
    cache_bytes: int
    imports_bytes: int
    full_prefill_bytes: int
    asks: tuple[Peak, ...]


@dataclass(frozen=True)
class WatchedAsk:
    """The prompt of which ``kvboost ask`` is watched."""

    workspace: Workspace
    paths: Sequence[str]
    wanted_device: str

    def arguments(self, strategy: str) -> list[str]:
        """What follows ``kvboost``. Everything is set that a user's configuration could change."""
        documents = [argument for path in self.paths for argument in ("-d", path)]
        handle = self.workspace.handle
        return [
            "ask", QUESTION, *documents, "--store", str(self.workspace.store.path), "--model", str(handle.path),
            "--dtype", handle.dtype, "--device", self.wanted_device, "--repair", strategy, "--order", "given",
            "--max-tokens", "1", "--temperature", "0", "--json", "--quiet",
        ]  # fmt: skip


def measure_memory(size: str, asked: WatchedAsk, strategies: Sequence[str]) -> MemoryUse:
    """Watch an ask with each strategy, and full prefill. Raises ``WatchedRunFailed``."""
    handle = asked.workspace.handle
    _watch_ask(asked, strategies[0])  # the model's fidelity gate may be passed in it
    watched = [_watch_ask(asked, strategy) for strategy in strategies]
    num_tokens = watched[0].prompt_tokens
    weights_bytes, cache_bytes = count_weights(handle.loaded), count_cache(handle.loaded, num_tokens)
    _told, imports_bytes = _watch([*PYTHON, "-c", IMPORTS])
    prefill = [*PYTHON, "-c", PREFILL, str(handle.path), asked.wanted_device, handle.dtype, str(num_tokens)]
    _told, full_prefill_bytes = _watch(prefill)
    peaks = (
        Peak(strategy, one.peak_bytes, (one.peak_bytes - imports_bytes) / (weights_bytes + cache_bytes))
        for strategy, one in zip(strategies, watched, strict=True)
    )
    return MemoryUse(size, num_tokens, weights_bytes, cache_bytes, imports_bytes, full_prefill_bytes, tuple(peaks))


def count_weights(model: LoadedModel) -> int:
    """Bytes of the model's weights, tied ones once."""
    return sum(weight.numel() * weight.element_size() for weight in model.module.parameters())


def count_cache(model: LoadedModel, num_tokens: int) -> int:
    """Bytes of keys and values of as many tokens in the model's dtype."""
    geometry = model.geometry
    numbers = geometry.num_layers * geometry.kv_heads * (geometry.key_dim + geometry.value_dim)
    return num_tokens * numbers * model.dtype.itemsize


def prefill_alone(model_dir: str, device: str, dtype: str, num_tokens: str) -> None:
    """Plain full prefill of any tokens, and nothing else: what a process of its own runs."""
    import torch

    from ..model.forward import full_prefill
    from ..model.load import choose_device, load_model

    model = load_model(Path(model_dir), choose_device(device), dtype)
    full_prefill(model, torch.zeros((1, int(num_tokens)), dtype=torch.int64, device=model.device))


@dataclass(frozen=True)
class _Watched:
    prompt_tokens: int
    peak_bytes: int


def _watch_ask(asked: WatchedAsk, strategy: str) -> _Watched:
    told, peak_bytes = _watch([*PYTHON, "-c", COMMAND_LINE, *asked.arguments(strategy)])
    facts = json.loads(told)
    for document in facts["documents"]:
        if document["hit"] == Hit.MISS.value:
            raise WatchedRunFailed(f"an ask whose memory is measured reused nothing of: {document['path']}")
    return _Watched(facts["tokens"]["prompt"], peak_bytes)


def _watch(command: Sequence[str]) -> tuple[str, int]:
    """What a command prints, and the largest resident set of its process in bytes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
    process = subprocess.Popen(
        [*PYTHON, watcher.__file__, *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        told, errors = process.communicate()
    except BaseException:
        process.terminate()  # the watcher ends the command with itself
        process.wait()
        raise
    if process.returncode:
        reason = (errors.strip() or told.strip() or "it told no reason").splitlines()[0]
        raise WatchedRunFailed(f"a process whose memory is measured ended with {process.returncode}: {reason}")
    told, _, peak = told.rstrip().rpartition("\n")
    return told, int(peak)
