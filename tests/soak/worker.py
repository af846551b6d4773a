"""A process of a trial: `worker.py flips|cuts FACTS` and `worker.py asker FACTS`, with FACTS in JSON.

Prints a JSON line per step, before and after it, so that the trial knows where a process died.
"""

import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
sys.path.insert(0, str(Path(__file__).parent))

import torch
from trials import Opener, ask, cut_off, flip_bit, hits, is_right

from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.workspace import Workspace
from store import StoreError


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def damage(facts: dict[str, Any], kind: str) -> None:
    """Damage a fresh copy of a store again and again, and judge what it then answers."""
    opener = Opener.of(Path(facts["model"]), Path(facts["cache"]))
    documents = [Path(name) for name in facts["documents"]]
    with opener.open(Path(facts["store"])) as workspace:
        clean = {name: (hits(one), one.logits) for name, one in _ask_all(workspace, documents).items()}
    for number in range(facts["first"], facts["last"]):
        copy = Path(facts["scratch"]) / f"{kind}-{number}"
        shutil.copytree(facts["store"], copy)
        chance = random.Random(f"{facts['seed']}/{kind}/{number}")
        what = (cut_off if kind == "cuts" else flip_bit)(copy / "data.mdb", chance)
        say(number=number, what=what)
        say(number=number, outcome=_judge(opener, copy, documents, clean))
        shutil.rmtree(copy)


def _ask_all(workspace: Workspace, documents: list[Path]) -> dict[str, Any]:
    """The first document alone, which is exact, and both, of which the second is a content hit."""
    return {"alone": ask(workspace, documents[:1]), "both": ask(workspace, documents[:2])}


def _judge(opener: Opener, store_dir: Path, documents: list[Path], clean: dict[str, Any]) -> str:
    """`same`: as from the clean store. `told`: refused with an error of the store's. `anew`: computed and right."""
    try:
        with opener.open(store_dir) as workspace:
            return _compare(workspace, _ask_all(workspace, documents), clean)
    except StoreError:
        return "told"


def _compare(workspace: Workspace, asked: dict[str, Any], clean: dict[str, Any]) -> str:
    outcome = "same"
    for name, stitched in asked.items():
        found, logits = clean[name]
        if hits(stitched) == found:
            if not torch.equal(stitched.logits, logits):
                return f"WRONG: {name} has the hits of a clean store and other logits"
            continue
        outcome = "anew"
        worse = [one for one, other in zip(hits(stitched), found, strict=True) if one != other]
        if Hit.EXACT in worse:
            return f"WRONG: {name} claims to be exact where a clean store is not"
        if Hit.CONTENT not in hits(stitched) and not is_right(workspace, stitched):
            return f"WRONG: {name} was computed anew and differs from full prefill"
    return outcome


def asker(facts: dict[str, Any]) -> None:
    """Ask about documents that nobody changes until the time is over; they have to be exact and right."""
    opener = Opener.of(Path(facts["model"]), Path(facts["cache"]))
    documents = [Path(name) for name in facts["documents"]]
    chance = random.Random(facts["seed"])
    ends = time.monotonic() + facts["seconds"]
    num_asked = 0
    while time.monotonic() < ends:
        with opener.open(Path(facts["store"])) as workspace:
            for path in chance.sample(documents, 3):
                stitched = ask(workspace, [path])
                if set(hits(stitched)) != {Hit.EXACT}:
                    say(error=f"not exact: {path}: {hits(stitched)}")
                elif not is_right(workspace, stitched):
                    say(error=f"wrong: {path}")
                num_asked += 1
    say(asked=num_asked)


if __name__ == "__main__":
    mode, told = sys.argv[1], json.loads(sys.argv[2])
    if mode == "asker":
        asker(told)
    else:
        damage(told, mode)
