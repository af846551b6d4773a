"""What the trials share: the desk, damage by a seed, and the questions by which a store is judged.

The desk's store is unquantized, in fp32, so a document that is exact has full prefill's own logits up to rounding, and
records that were made anew are told from others by what the plan says of them.
"""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from desks import Desk, prose
from torch import Tensor

from kvboost_cli.model.forward import full_prefill
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.asking import AskRequest, Stitched, start_answer
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.workspace import Workspace, WorkspaceRequest, open_workspace

NUM_DOCUMENTS = 12
QUESTION = "Which vessel waited?"
ROUNDING = {"atol": 2e-3, "rtol": 0.0}
"""Of logits that are up to 30: what fp32 leaves between two ways of computing the same; wrong KV is over 1 away."""

PAGE_BYTES = 4096
PAGE_HEADER_BYTES = 64


@dataclass(frozen=True)
class Sizes:
    """How much a trial does: kills, flips and cuts by count, the crowd in seconds with so many who ask."""

    kills: int
    flips: int
    cuts: int
    crowd_s: float
    crowd: int


SHORT = Sizes(kills=4, flips=20, cuts=5, crowd_s=6, crowd=2)
LONG = Sizes(kills=200, flips=1000, cuts=50, crowd_s=60, crowd=8)


def make_desk(root: Path, model_dir: Path, cache_dir: Path) -> Desk:
    """Documents, and the environment in which the script finds model and store."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KVBOOST_")}
    env |= {f"XDG_{kind}_HOME": str(root / kind.lower()) for kind in ("DATA", "CONFIG")}
    env |= {"XDG_CACHE_HOME": str(cache_dir), "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env |= {"KVBOOST_MODEL": str(model_dir), "KVBOOST_STORE": str(root / "store"), "KVBOOST_MAX_TOKENS": "3"}
    env |= {"KVBOOST_BITS": "16", "KVBOOST_DTYPE": "float32"}
    desk = Desk(root, root / "docs", root / "store", env)
    for number in range(NUM_DOCUMENTS):
        desk.write(f"docs/{number:02}.md", prose(number))
    return desk


@dataclass(frozen=True)
class Opener:
    """Opens stores of one model, which is loaded once."""

    handle: ModelHandle

    @classmethod
    def of(cls, model_dir: Path, cache_dir: Path) -> "Opener":
        """For a model, with a place for its fingerprint."""
        return cls(ModelHandle("tiny", model_dir, "cpu", "float32", cache_dir))

    @contextmanager
    def open(self, store_dir: Path) -> Iterator[Workspace]:
        """A workspace on an existing store."""
        request = WorkspaceRequest(store_dir, str(self.handle.path), "float32", 16, None, None)
        with open_workspace(request, lambda _model, _dtype: self.handle, create=False) as workspace:
            yield workspace


def ask(workspace: Workspace, documents: Sequence[Path]) -> Stitched:
    """A question over documents, without repair, up to the first token."""
    request = AskRequest(
        question=QUESTION, documents=[str(path) for path in documents], top_k=1, repair="none", max_tokens=3
    )
    return start_answer(workspace, request).stitched


def hits(stitched: Stitched) -> list[Hit]:
    """What was found of each chunk."""
    return [chunk.hit for chunk in stitched.plan.chunks]


def truth(workspace: Workspace, stitched: Stitched) -> Tensor:
    """Full prefill's logits [vocabulary] of the same prompt."""
    logits, _cache = full_prefill(workspace.handle.loaded, torch.tensor([stitched.prompt.token_ids]))
    return logits[0, -1]


def is_right(workspace: Workspace, stitched: Stitched) -> bool:
    """Whether a prompt without content hits has the logits of full prefill."""
    assert Hit.CONTENT not in hits(stitched), "a content hit is right and differs all the same"
    return torch.allclose(stitched.logits, truth(workspace, stitched), **ROUNDING)


def flip_bit(path: Path, chance: random.Random) -> str:
    """Change one bit of a file, in every third case one of a page's header; what was changed."""
    size = path.stat().st_size
    place = chance.randrange(size)
    if chance.random() < 1 / 3:
        place = place // PAGE_BYTES * PAGE_BYTES + chance.randrange(PAGE_HEADER_BYTES)
    bit = 1 << chance.randrange(8)
    with open(path, "r+b") as file:
        file.seek(place)
        old = file.read(1)[0]
        file.seek(place)
        file.write(bytes([old ^ bit]))
    return f"bit {bit:#x} of byte {place:,} of {size:,}"


def cut_off(path: Path, chance: random.Random) -> str:
    """Shorten a file; what was done."""
    size = path.stat().st_size
    kept = chance.randrange(size)
    os.truncate(path, kept)
    return f"cut to {kept:,} of {size:,} bytes"
