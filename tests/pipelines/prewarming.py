"""Prewarming as the command does it, and asks that it goes by."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from samples import Desk, make_text

from kvboost_cli.pipelines.asking import AskRequest, Stitched, start_answer
from kvboost_cli.pipelines.chains import ChainPlan, MadeChains, make_chains, plan_chains
from kvboost_cli.pipelines.finishing import make_report, record_ask, write_back
from kvboost_cli.pipelines.folders import IndexedFolder, remember_run
from kvboost_cli.pipelines.refreshing import Deadline, refresh_documents
from kvboost_cli.pipelines.tally import IndexTally
from kvboost_cli.pipelines.workspace import Workspace
from store import Rules, check_store


@dataclass(frozen=True)
class Prewarmed:
    tally: IndexTally
    plan: ChainPlan
    made: MadeChains


def prewarm(workspace: Workspace, top: int = 20, deadline: Deadline | None = None) -> Prewarmed:
    """All steps, as the command takes them."""
    tally, deadline = IndexTally(), deadline or Deadline()
    with workspace.store.writer_lock():
        for event in refresh_documents(workspace, deadline):
            tally.add(event)
        plan = plan_chains(workspace, top)
        *_, made = make_chains(workspace, plan, deadline)
    assert [fault for fault in check_store(workspace.store, Rules()) if hasattr(fault, "kind")] == []
    return Prewarmed(tally, plan, made)


def ask(workspace: Workspace, request: AskRequest) -> Stitched:
    """An answer that is written back and kept in the history."""
    answer = start_answer(workspace, request)
    answer.drain(workspace.handle.loaded)
    list(write_back(workspace, answer.stitched))
    record_ask(workspace, make_report(workspace, request, answer, None), answer.stitched)
    return answer.stitched


@contextmanager
def opened(desk: Desk) -> Iterator[Workspace]:
    """The store, with the desk's folder among those that are looked through."""
    with desk.workspace() as workspace:
        remember_run(workspace.store, [IndexedFolder(str(desk.docs))])
        yield workspace


def index_four(desk: Desk) -> list[Path]:
    """Four documents of several chunks, indexed."""
    desk.bits = 16
    paths = [desk.write(f"{seed}.md", make_text(seed, 2 + seed % 3)) for seed in range(4)]
    desk.index()
    return paths


def chain_names(workspace: Workspace) -> list[list[str]]:
    with workspace.store.snapshot() as snapshot:
        return sorted([Path(part.name).name for part in chain.documents] for chain in snapshot.chains())
