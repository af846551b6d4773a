"""A document that stands first in the prompt, or alone, is exact after ``index``: its KV is full prefill's."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from samples import Desk, ask_and_keep, ask_request, hit_kinds, make_text, reference_logits
from test_ask_exactness import make_prompt, repair_everything
from test_encode import naive_unrotated
from tiny_models import ARCHITECTURES, LONG_FROM, TinyModels
from torch import Tensor

from kvboost_cli.kv.expand import expand_layer, groups_of_chunks
from kvboost_cli.kv.layout import view_layer
from kvboost_cli.kv.rotate import unrotate_keys
from kvboost_cli.pipelines.asking import Answer, start_answer
from kvboost_cli.pipelines.finishing import make_report
from kvboost_cli.pipelines.plan import Hit, Segment
from kvboost_cli.pipelines.prepare import preamble_key
from kvboost_cli.pipelines.recipe import Recipe
from kvboost_cli.pipelines.records import layer_shape, positional_record
from kvboost_cli.pipelines.workspace import Workspace

# fp32 in another order of sums; keys near 300 (Qwen2) make that more visible
TOLERANCE = {"atol": 5e-4, "rtol": 0}

E, C, M = Hit.EXACT, Hit.CONTENT, Hit.MISS


def hits(segment: Segment) -> list[Hit]:
    """Of the header, then of the chunks."""
    return [segment.header_hit, *(chunk.hit for chunk in segment.chunks)]


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "phi3"])
def test_a_document_asked_alone_equals_full_prefill(tiny_models: TinyModels, tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, tiny_models.path(name), bits=16)
    path = desk.write("a.md", make_text(1, 6))
    desk.index()
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(path)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    (segment,) = stitched.plan.segments
    assert len(segment.chunks) > 3
    assert set(hits(segment)) == {E}
    assert stitched.plan.fresh_positions() == []
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


@pytest.mark.parametrize(("bits", "contexts"), [(16, 0), (8, 2), (4, 1)])
def test_the_stored_kv_is_full_prefills_to_half_a_quantization_step(
    tiny_models: TinyModels, desk: Desk, bits: int, contexts: int
) -> None:
    desk.bits, desk.contexts = bits, contexts
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, [path])
        model, recipe = workspace.handle.loaded, workspace.recipe
        reference = tiny_models.reference("llama", torch.tensor([prompt.token_ids]))
        start = len(prompt.preamble)
        for key in desk.entry(path).position_keys:
            with workspace.store.snapshot() as snapshot:
                header = snapshot.position_header(key)
                assert header is not None
                stored = [bytearray(snapshot.layer(key, layer, header)) for layer in range(header.num_layers)]
            part = slice(start, start + header.num_tokens)
            for data, (keys, values) in zip(stored, reference.layers, strict=True):
                arrays = view_layer(
                    torch.frombuffer(data, dtype=torch.uint8), layer_shape(model, recipe, header.num_tokens)
                )
                unrotated = naive_unrotated(model, keys, len(prompt.token_ids))[:, part]
                assert_within_half_a_step(arrays, unrotated, values[:, part], recipe)
            start = part.stop


def assert_within_half_a_step(arrays: Sequence[Tensor], keys: Tensor, values: Tensor, recipe: Recipe) -> None:
    """``arrays`` of a stored layer against keys and values [kv_heads, tokens, head_dim]; at 16 bits noise is all."""
    num_tokens = keys.shape[1]
    groups = groups_of_chunks([num_tokens], recipe.group)
    unturned = torch.zeros(num_tokens, keys.shape[-1] // 2)
    found = expand_layer([tuple(arrays)], groups, unturned + 1, unturned, recipe.bits)
    steps = [torch.zeros(1), torch.zeros(1)]
    if recipe.bits < 16:
        steps = [arrays[1].float()[:, groups], arrays[4].float().repeat_interleave(recipe.group, dim=-1)]
    for actual, expected, step in zip(found, (keys, values), steps, strict=True):
        assert ((actual - expected).abs() <= 0.501 * step + 1e-4).all()


def test_only_the_first_of_several_documents_is_exact(desk: Desk) -> None:
    paths = [desk.write(f"{seed}.md", make_text(seed, 1 + seed)) for seed in range(3)]
    desk.index()
    with desk.workspace() as workspace:
        for order in ((0, 1, 2), (2, 0, 1), (1, 1, 0)):
            stitched = start_answer(workspace, ask_request(*(paths[place] for place in order))).stitched
            assert hit_kinds(stitched) == [{E}, {C}, {C}]
            assert [segment.header_hit for segment in stitched.plan.segments] == [E, C, C]


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "phi3"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_exact_content_and_missing_kv_mixed(
    tiny_models: TinyModels, tmp_path: Path, name: str, order: tuple[int, ...]
) -> None:
    """With every token of a content hit recomputed, the logits are full prefill's."""
    desk = Desk(tmp_path, tiny_models.path(name), bits=16)
    paths = [desk.write(f"{seed}.md", make_text(seed, 1 + seed % 2)) for seed in range(4)]
    desk.index(*paths[:3])
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, [paths[place] for place in order])
        plan, logits = repair_everything(workspace, prompt)
        expected = reference_logits(workspace, prompt.token_ids)
    assert {chunk.hit for chunk in plan.chunks} == {E, C, M}
    torch.testing.assert_close(logits, expected, **TOLERANCE)


@pytest.mark.parametrize("repair", ["auto", "none", "selective", "cacheblend", "question"])
def test_nothing_is_repaired_where_all_is_exact(tiny_models: TinyModels, tmp_path: Path, repair: str) -> None:
    desk = Desk(tmp_path, tiny_models.path("llama-deep"), bits=16)
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        request = ask_request(path, repair=repair)
        answer = start_answer(workspace, request)
        answer.drain(workspace.handle.loaded)
        report = make_report(workspace, request, answer, None)
        expected = reference_logits(workspace, answer.stitched.prompt.token_ids)
    tokens = report.tokens
    assert (tokens.reused, tokens.repaired, tokens.prefilled) == (0, 0, answer.stitched.plan.num_tail_tokens)
    assert tokens.exact + tokens.prefilled == tokens.prompt
    assert [document.hit for document in report.documents] == ["exact"]
    assert "repair_s" not in answer.phases
    torch.testing.assert_close(answer.stitched.logits, expected, **TOLERANCE)


def test_an_excerpt_is_exact_as_far_as_it_is_the_documents_beginning(desk: Desk) -> None:
    """Paragraphs about a walrus at the beginning, about a heron at the end."""
    middle = make_text(1, 12)
    walrus, heron = "The walrus sleeps on the ice. " * 12, "The heron stands in the reeds. " * 12
    desk.write("a.md", f"{walrus}\n\n{middle}\n\n{heron}\n")
    desk.index()
    with desk.workspace() as workspace:
        request = {"top_k": 1, "max_tokens": 1000}
        (first,) = start_answer(workspace, ask_request(question="walrus?", **request)).stitched.plan.segments
        (last,) = start_answer(workspace, ask_request(question="heron?", **request)).stitched.plan.segments
    assert set(hits(first)) == {E}
    assert set(hits(last)) == {M, C}
    assert last.header_hit is M


def test_another_system_message_has_no_exact_documents(desk: Desk) -> None:
    path = desk.write("a.md", make_text(1))
    desk.index()
    with desk.workspace() as workspace:
        stitched = ask_and_keep(workspace, ask_request(path, system="You are terse.")).stitched
        assert hit_kinds(stitched) == [{C}]
        assert hit_kinds(start_answer(workspace, ask_request(path)).stitched) == [{E}]


@pytest.mark.parametrize("num_words", [10, 30])
def test_longrope_before_its_switch(tiny_models: TinyModels, tmp_path: Path, num_words: int) -> None:
    desk = Desk(tmp_path, tiny_models.path("phi3"), bits=16)
    path = desk.write("a.md", " ".join(["valley"] * num_words) + "\n")
    desk.index()
    with desk.workspace() as workspace:
        stitched = start_answer(workspace, ask_request(path)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
    assert len(stitched.prompt.token_ids) < LONG_FROM
    assert hit_kinds(stitched) == [{E}]
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


def test_longrope_beyond_its_switch_has_no_exact_documents(tiny_models: TinyModels, tmp_path: Path) -> None:
    """Links are those of short prompts, so a document has them up to the switch."""
    desk = Desk(tmp_path, tiny_models.path("phi3"), bits=16, contexts=0)
    short, long = desk.write("short.md", "river\n"), desk.write("long.md", make_text(1, 3))
    beyond = desk.write("beyond.md", "valley " * 60 + "\n")
    desk.index()
    assert [len(desk.entry(path).position_keys) for path in (short, long, beyond)] == [1, 1, 0]
    assert len(desk.entry(long).chunk_keys) > 1
    assert desk.index()[0].changes["unchanged"] == 3
    with desk.workspace() as workspace:
        prompt = make_prompt(workspace, [short, long, beyond])
        plan, logits = repair_everything(workspace, prompt)
        expected = reference_logits(workspace, prompt.token_ids)
    assert len(prompt.token_ids) > LONG_FROM
    assert {chunk.hit for chunk in plan.chunks} == {C}
    torch.testing.assert_close(logits, expected, **TOLERANCE)


def test_links_of_a_whole_prompt_are_found_over_all_its_documents(desk: Desk) -> None:
    """As if an earlier computation had stored them: two documents, one behind the other."""
    desk.bits = 16
    one, two = desk.write("a.md", make_text(1)), desk.write("b.md", make_text(2))
    desk.index()
    with desk.workspace() as workspace:
        _store_whole_prompt(workspace, start_answer(workspace, ask_request(one, two, repair="selective", ratio=1.0)))
        stitched = start_answer(workspace, ask_request(one, two)).stitched
        expected = reference_logits(workspace, stitched.prompt.token_ids)
        turned = start_answer(workspace, ask_request(two, one)).stitched
    assert hit_kinds(stitched) == [{E}, {E}]
    assert stitched.plan.fresh_positions() == []
    assert hit_kinds(turned) == [{E}, {C}]
    torch.testing.assert_close(stitched.logits, expected, **TOLERANCE)


def _store_whole_prompt(workspace: Workspace, answer: Answer) -> None:
    """Positional records of all chunks of a prompt, from its cache."""
    model, stitched = workspace.handle.loaded, answer.stitched
    prompt, keys = stitched.prompt, workspace.keys
    parent = preamble_key(keys.fingerprint, prompt.preamble, rope_variant=0)
    start = len(prompt.preamble)
    cos, sin = model.rotary_angles(stitched.plan.num_tokens)
    for link in keys.chain(parent, prompt.positional_runs):
        part = slice(start, start + len(link.token_ids))
        layers = [
            (unrotate_keys(cached[0][0, :, part], cos[part], sin[part]), cached[1][0, :, part])
            for cached in map(stitched.kv.layer_kv, range(model.geometry.num_layers))
        ]
        record = positional_record(
            link.key, model, keys.fingerprint, workspace.recipe, link.token_ids, layers, rotated=False
        )
        workspace.store.put_position(record)
        start = part.stop
