"""Medians and the table of a side-by-side benchmark."""

from benchmarks.peers.results import Sample, markdown, ratio, summarize

SAMPLES = [
    Sample("we", "auto", 0.1, full_s=1.0, same_answer=True),
    Sample("they", "same order", 0.4),
    Sample("we", "auto", 0.2, full_s=1.0, same_answer=False),
    Sample("they", "same order", 1.6),
    Sample("we", "auto", 0.4, full_s=1.2, same_answer=True),
    Sample("they", "same order", 1.2),
]


def test_a_row_has_medians_and_counts() -> None:
    ours, theirs = summarize(SAMPLES)
    assert (ours.who, ours.n, ours.ttft_s, ours.speedup) == ("we", 3, 0.2, 5.0)
    assert (ours.same_answers, ours.num_answers) == (2, 3)
    assert (theirs.ttft_s, theirs.speedup, theirs.same_answers) == (1.2, None, None)


def test_a_ratio_is_the_median_over_turns() -> None:
    assert ratio(SAMPLES, ("they", "same order"), ("we", "auto")) == 4.0


def test_a_ratio_of_what_was_not_measured_equally_often_is_that_of_medians() -> None:
    assert ratio(SAMPLES[:-1], ("they", "same order"), ("we", "auto")) == 5.0


def test_the_table_leaves_out_what_nobody_measured() -> None:
    assert markdown(summarize(SAMPLES)).splitlines() == [
        "| who | what | first token | own full prefill / it | same answer | n |",
        "| --- | --- | --- | --- | --- | --- |",
        "| we | auto | 200 ms | 5.0 | 2 of 3 | 3 |",
        "| they | same order | 1.20 s |  |  | 3 |",
    ]
