"""Documents of made-up words, and a desk: a folder of documents, a store and a tiny model to use on them."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import lmdb
import torch
from torch import Tensor

from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.asking import Answer, AskRequest, Stitched, start_answer
from kvboost_cli.pipelines.finishing import write_back
from kvboost_cli.pipelines.indexing import IndexEvent, IndexRequest, index_documents
from kvboost_cli.pipelines.plan import Hit
from kvboost_cli.pipelines.tally import IndexTally
from kvboost_cli.pipelines.workspace import Workspace, WorkspaceRequest, open_workspace
from store import DocumentEntry

WORDS = [
    "valley", "river", "bench", "tool", "cache", "token", "mirror", "garden", "signal", "ladder", "harbour",
    "winter", "copper", "lantern", "meadow", "engine", "paper", "window", "thread", "basket",
]  # fmt: skip


def make_text(seed: int, num_paragraphs: int = 4) -> str:
    """Paragraphs of some 40 words, about 180 tokens each for the tiny tokenizer."""
    source = random.Random(seed)
    paragraphs = (" ".join(source.choices(WORDS, k=40)).capitalize() + "." for _ in range(num_paragraphs))
    return "\n\n".join(paragraphs) + "\n"


def ask_request(*documents: str | Path, **changes: object) -> AskRequest:
    """A greedy question over named documents."""
    facts: dict[str, object] = {
        "question": "Which river is it?", "documents": tuple(map(str, documents)), "top_k": 4, "repair": "none",
        "ratio": None, "no_cache": False, "max_tokens": 6, "temperature": 0.0, "seed": None, "system": None,
    }  # fmt: skip
    return AskRequest(**(facts | changes))  # type: ignore[arg-type]


@dataclass
class Desk:
    """Everything below ``root``: documents in ``docs``, the store in ``store``."""

    root: Path
    model_dir: Path
    bits: int | None = None
    contexts: int | None = None
    exact: bool | None = None
    handles: dict[str, ModelHandle] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.docs.mkdir(exist_ok=True)

    @property
    def docs(self) -> Path:
        """The folder of documents."""
        return self.root / "docs"

    def write(self, name: str, text: str) -> Path:
        """A document."""
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def _handle(self, _model: str | None, dtype: str) -> ModelHandle:
        """One handle per dtype, so that a test loads its model once."""
        if dtype not in self.handles:
            self.handles[dtype] = ModelHandle("tiny", self.model_dir, "cpu", dtype, self.root / "cache")
        return self.handles[dtype]

    @contextmanager
    def workspace(self, *, create: bool = True, force: bool = False) -> Iterator[Workspace]:
        """The store, made if there is none, in fp32."""
        request = WorkspaceRequest(
            self.root / "store", str(self.model_dir), "float32", self.bits, self.contexts, self.exact
        )
        with open_workspace(request, self._handle, create=create, force=force) as workspace:
            yield workspace

    def index(self, *paths: str | Path, **options: object) -> tuple[IndexTally, list[IndexEvent]]:
        """Index paths, by default the folder of documents, as the command does."""
        named = [str(path) for path in paths] if paths or "listed" in options else [str(self.docs)]
        force = bool(options.get("force"))
        with self.workspace(force=force) as workspace, workspace.store.writer_lock():
            events = list(index_documents(workspace, IndexRequest(named, **options)))  # type: ignore[arg-type]
        tally = IndexTally()
        for event in events:
            tally.add(event)
        return tally, events

    def damage(self, key: bytes, layer: int | None = None, database: str = "chunks") -> None:
        """Flip a bit in a record's header, or in a layer of it, behind the store's back."""
        place = key if layer is None else key + layer.to_bytes(2, "big")
        with lmdb.open(str(self.root / "store"), map_size=1 << 30, max_dbs=8, create=False) as environment:
            handle = environment.open_db(database.encode(), create=False)
            with environment.begin(write=True, db=handle) as transaction:
                data = bytearray(transaction.get(place))
                data[len(data) // 2] ^= 0x40
                transaction.put(place, bytes(data))

    def entry(self, name: str | Path) -> DocumentEntry:
        """What the store knows of a document."""
        with self.workspace() as workspace, workspace.store.snapshot() as snapshot:
            entry = snapshot.document(str(name))
        assert entry is not None
        return entry

    def names(self) -> list[str]:
        """The stored documents, by their place below the folder of documents."""
        with self.workspace() as workspace, workspace.store.snapshot() as snapshot:
            names = list(snapshot.document_names())
        with self.workspace() as workspace:
            assert sorted(workspace.search.document_hashes()) == sorted(names)
        return sorted(name.removeprefix(f"{self.docs}/") for name in names)


def hit_kinds(stitched: Stitched) -> list[set[Hit]]:
    """The kinds of hits of each document's chunks."""
    return [{chunk.hit for chunk in segment.chunks} for segment in stitched.plan.segments]


def first_logits(workspace: Workspace, request: AskRequest) -> Tensor:
    """Logits [vocabulary] after the prompt."""
    return start_answer(workspace, request).stitched.logits


def ask_and_keep(workspace: Workspace, request: AskRequest) -> Answer:
    """An answer, decoded to its end and written back, as the command does."""
    answer = start_answer(workspace, request)
    answer.drain(workspace.handle.loaded)
    list(write_back(workspace, answer.stitched))
    return answer


def reference_logits(workspace: Workspace, prompt_ids: Sequence[int], attention: str = "eager") -> Tensor:
    """The last position's logits by plain transformers, loaded anew, with an attention of its own."""
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(
        workspace.handle.path, dtype=torch.float32, attn_implementation=attention
    )
    with torch.inference_mode():
        logits: Tensor = module(input_ids=torch.tensor([list(prompt_ids)])).logits[0, -1]
    return logits
