"""The default model: exact when repaired, and far nearer to full prefill than misplaced keys when not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from samples import Desk, ask_request
from test_ask_exactness import make_prompt, repair_everything
from torch import Tensor

from kvboost_cli.model.cache import ScatterCache
from kvboost_cli.model.forward import forward_tokens, full_prefill
from kvboost_cli.model.load import LoadedModel
from kvboost_cli.pipelines.asking import Stitched, start_answer
from kvboost_cli.pipelines.finishing import make_report
from kvboost_cli.pipelines.plan import Hit

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def real_desk(default_model_dir: Path, tmp_path: Path) -> Desk:
    """Three passages of this project's own pages, encoded alone in fp32."""
    desk = Desk(tmp_path, default_model_dir, contexts=0, exact=False)
    for name in ("CONTRIBUTING.md", "LICENSE", "pyproject.toml"):
        desk.write(name, (ROOT / name).read_text()[:500])
    desk.index()
    return desk


def mean_kl(expected: Tensor, logits: Tensor) -> float:
    """KL(expected || logits) in nats, mean over positions."""
    p, q = expected.double().log_softmax(-1), logits.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean().item()


def tail_logits(model: LoadedModel, stitched: Stitched) -> Tensor:
    """Logits [tail, vocabulary] over the stitched cache."""
    rows = stitched.plan.tail
    ids = torch.tensor([stitched.prompt.tail])
    return forward_tokens(model, ids, rows, stitched.kv, num_logits=len(rows))[0]


def reference_tail_logits(model: LoadedModel, stitched: Stitched) -> Tensor:
    """The same by one pass over the whole prompt."""
    ids, num_tail = torch.tensor([stitched.prompt.token_ids]), stitched.plan.num_tail_tokens
    kv = ScatterCache(model.geometry, ids.shape[1], model.dtype, model.device)
    return forward_tokens(model, ids, range(ids.shape[1]), kv, num_logits=num_tail)[0]


def test_a_real_prompt_in_an_unseen_order(real_desk: Desk) -> None:
    paths = [real_desk.docs / name for name in ("pyproject.toml", "CONTRIBUTING.md", "LICENSE")]
    with real_desk.workspace() as workspace:
        model, prompt = workspace.handle.loaded, make_prompt(workspace, paths)
        _plan, logits = repair_everything(workspace, prompt)
        expected = full_prefill(model, torch.tensor([prompt.token_ids]))[0][0, -1]
        # 30 layers of fp32 sums in another order
        torch.testing.assert_close(logits, expected, atol=1e-3, rtol=0)

        request = ask_request(*paths, question="Which licence is it, and who may use the software?", max_tokens=2)
        answer = start_answer(workspace, request)
        report = make_report(workspace, request, answer, None)
        reference = reference_tail_logits(model, answer.stitched)
        reused = mean_kl(reference, tail_logits(model, answer.stitched))
        places = answer.stitched.plan.positions_with(Hit.CONTENT)
        for layer in answer.stitched.kv.buffers:
            layer.keys[:, :, places] = layer.keys[:, :, places].roll(7, dims=2)
        misplaced = mean_kl(reference, tail_logits(model, answer.stitched))
    assert {document.hit for document in report.documents} == {"content"}
    assert report.tokens.exact + report.tokens.reused > 0.7 * report.tokens.prompt
    assert reused < misplaced / 2
