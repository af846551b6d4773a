"""What `--variant` takes, and what it refuses."""

import pytest

from kvboost_cli.bench.errors import OrderNotShared, UnknownVariant
from kvboost_cli.bench.variants import BASELINE, DEFAULT_VARIANTS, Variant, label_of, parse_variants, require_one_order
from kvboost_cli.pipelines.repairing import REPAIRS, effective_name

STRATEGIES = ("auto", *REPAIRS)


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("auto", Variant("auto")),
        ("question:0.02", Variant("question", 0.02)),
        ("alone/cacheblend:0.15", BASELINE),
        ("alone/none", Variant("none", alone=True)),
        ("selective:1", Variant("selective", 1.0)),
    ],
)
def test_a_variant_is_parsed(text: str, variant: Variant) -> None:
    assert parse_variants([text, text], STRATEGIES) == (variant,)
    assert variant.name == text


@pytest.mark.parametrize(
    "text", ["", "best", "question:", "question:0", "question:1.5", "question:x", "none:0.1", "store/none", "alone/"]
)
def test_what_is_no_variant_is_refused(text: str) -> None:
    with pytest.raises(UnknownVariant, match=f"{text}'$"):
        parse_variants([text], STRATEGIES)


def test_variants_that_would_have_other_orders_are_refused() -> None:
    require_one_order([Variant("none"), Variant("auto")], "exact")
    require_one_order([BASELINE, Variant("auto")], "score")
    with pytest.raises(OrderNotShared, match=r"alone/cacheblend:0\.15$"):
        require_one_order([Variant("auto"), BASELINE], "exact")


def test_the_default_variants_hold_every_strategy_once_and_the_baseline_first() -> None:
    assert DEFAULT_VARIANTS[0] == BASELINE
    assert {variant.repair for variant in DEFAULT_VARIANTS} == set(STRATEGIES) - {effective_name("auto")}
    assert parse_variants([variant.name for variant in DEFAULT_VARIANTS], STRATEGIES) == DEFAULT_VARIANTS


def test_labels_are_for_people() -> None:
    assert label_of("question:0.02") == "question 2 %"
    assert label_of("alone/cacheblend:0.15") == "B: cacheblend 15 %, alone"
