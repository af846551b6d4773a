"""Laying a prompt out, choosing repairs, and counting where tokens come from: integers only."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kvboost_cli.pipelines.plan import Hit, SegmentSizes, StitchPlan, plan_stitch
from kvboost_cli.pipelines.repairs.heads import DEFAULT_HEAD_TOKENS, choose_heads
from kvboost_cli.pipelines.report import count_tokens

HITS = st.sampled_from(Hit)


@st.composite
def documents(draw: st.DrawFn) -> SegmentSizes:
    count = draw(st.integers(0, 5))
    return SegmentSizes(
        num_header_tokens=draw(st.integers(0, 4)),
        chunk_tokens=draw(st.lists(st.integers(1, 60), min_size=count, max_size=count)),
        chunk_places=sorted(draw(st.sets(st.integers(0, 9), min_size=count, max_size=count))),
        chunk_hits=draw(st.lists(HITS, min_size=count, max_size=count)),
    )


PLANS = st.builds(
    plan_stitch,
    st.integers(0, 8),
    st.sampled_from([Hit.EXACT, Hit.MISS]),
    st.lists(documents(), max_size=4),
    st.integers(1, 9),
)
RATIOS = st.one_of(st.none(), st.floats(0.0, 1.0))


def one_document(
    *tokens: int, places: list[int] | None = None, header: int = 2, hit: Hit = Hit.CONTENT
) -> SegmentSizes:
    return SegmentSizes(header, tokens, places or list(range(len(tokens))), [hit] * len(tokens))


def test_the_documented_example() -> None:
    plan = plan_stitch(3, Hit.MISS, [one_document(5, 4)], 6)
    assert [(chunk.number, chunk.start) for chunk in plan.chunks] == [(0, 5), (1, 10)]
    assert (plan.tail_start, plan.num_tokens) == (14, 20)


@given(PLANS)
def test_every_position_belongs_to_exactly_one_part(plan: StitchPlan) -> None:
    parts = [range(plan.num_preamble_tokens)]
    for segment in plan.segments:
        parts += [segment.header, *(chunk.positions for chunk in segment.chunks)]
    parts.append(plan.tail)
    assert [place for part in parts for place in part] == list(range(plan.num_tokens))
    assert [chunk.number for chunk in plan.chunks] == list(range(len(list(plan.chunks))))


@given(PLANS)
def test_fresh_reused_exact_and_tail_make_up_the_prompt(plan: StitchPlan) -> None:
    parts = [plan.fresh_positions(), plan.positions_with(Hit.CONTENT), plan.positions_with(Hit.EXACT), list(plan.tail)]
    assert sorted(place for part in parts for place in part) == list(range(plan.num_tokens))
    assert all(part == sorted(part) for part in parts)


@given(PLANS)
def test_the_tail_is_never_reused_and_a_header_only_with_the_chunk_behind_it(plan: StitchPlan) -> None:
    exact = set(plan.positions_with(Hit.EXACT))
    reused = {*plan.positions_with(Hit.CONTENT), *exact}
    assert not reused.intersection(plan.tail)
    for segment in plan.segments:
        if segment.header_hit is Hit.MISS:
            assert not reused.intersection(segment.header)
        else:
            assert segment.header_hit is segment.chunks[0].hit
            assert reused.issuperset(segment.header)


def test_a_header_is_reused_with_the_first_chunk_of_its_document_alone() -> None:
    whole, excerpt = one_document(5, 5), one_document(5, 5, places=[1, 2])
    plan = plan_stitch(3, Hit.EXACT, [whole, excerpt], 2)
    assert [segment.header_hit for segment in plan.segments] == [Hit.CONTENT, Hit.MISS]
    assert plan.fresh_positions() == [15, 16]


def test_an_exact_header_is_not_computed() -> None:
    plan = plan_stitch(3, Hit.EXACT, [one_document(5, 4, hit=Hit.EXACT), one_document(6)], 2)
    assert plan.positions_with(Hit.EXACT) == list(range(14))
    assert plan.fresh_positions() == []
    counts = count_tokens(plan, 0, 0)
    assert (counts.exact, counts.reused, counts.prefilled) == (14, 8, 2)


def test_seams_stand_where_a_chunk_does_not_follow_its_predecessor() -> None:
    plan = plan_stitch(1, Hit.EXACT, [one_document(10, 10, 10, 10, places=[0, 1, 3, 7]), one_document(5)], 1)
    assert [segment.seams for segment in plan.segments] == [(23, 33), ()]


@given(PLANS, RATIOS)
def test_only_reused_tokens_are_repaired_each_once(plan: StitchPlan, ratio: float | None) -> None:
    repaired = choose_heads(plan, ratio)
    assert repaired == sorted(set(repaired))
    assert set(repaired) <= set(plan.positions_with(Hit.CONTENT))


@given(PLANS, RATIOS, st.integers(0, 9))
def test_token_counts_sum_to_the_prompt(plan: StitchPlan, ratio: float | None, generated: int) -> None:
    counts = count_tokens(plan, len(choose_heads(plan, ratio)), generated)
    assert counts.exact + counts.reused + counts.repaired + counts.prefilled == counts.prompt == plan.num_tokens
    assert min(counts.exact, counts.reused, counts.repaired, counts.prefilled) >= 0
    assert counts.generated == generated


def test_selective_repair_takes_headers_the_heads_of_documents_and_what_follows_seams() -> None:
    plan = plan_stitch(0, Hit.MISS, [one_document(100, 100, places=[0, 5]), one_document(100)], 1)
    length = DEFAULT_HEAD_TOKENS
    expected = [*range(2 + length), *range(102, 102 + length), *range(202, 204 + length)]
    assert choose_heads(plan, None) == expected


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_a_ratio_of_one_repairs_all_of_one_document(chunk_tokens: list[int]) -> None:
    plan = plan_stitch(3, Hit.EXACT, [one_document(*chunk_tokens)], 2)
    assert choose_heads(plan, 1.0) == plan.positions_with(Hit.CONTENT)


def test_a_ratio_of_one_repairs_all_of_several_documents() -> None:
    """``--ratio`` is the share of reused tokens to recompute, so 1.0 is every one of them."""
    plan = plan_stitch(3, Hit.EXACT, [one_document(20), one_document(200, 100)], 2)
    assert choose_heads(plan, 1.0) == plan.positions_with(Hit.CONTENT)


def test_a_ratio_of_one_repairs_all_of_a_document_with_a_miss_in_it() -> None:
    sizes = SegmentSizes(2, [20, 30, 40], [0, 1, 2], [Hit.CONTENT, Hit.MISS, Hit.CONTENT])
    plan = plan_stitch(3, Hit.EXACT, [sizes], 2)
    assert choose_heads(plan, 1.0) == plan.positions_with(Hit.CONTENT)


@given(PLANS)
def test_a_ratio_of_zero_repairs_nothing(plan: StitchPlan) -> None:
    assert choose_heads(plan, 0.0) == []


@given(PLANS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_larger_ratio_repairs_no_less(plan: StitchPlan, one: float, other: float) -> None:
    fewer, more = (set(choose_heads(plan, ratio)) for ratio in sorted((one, other)))
    assert fewer <= more


def test_planning_needs_no_torch() -> None:
    modules = ("plan", "repairs.heads", "report", "windows", "excerpt", "fillers", "recipe", "clock")
    imports = "".join(f"import kvboost_cli.pipelines.{name}\n" for name in modules)
    script = f"{imports}import sys\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
