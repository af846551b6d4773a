"""`ask` for people: reports by length, several questions in one run, Ctrl-C, terminals of any width and locale."""

import json
import os
import re
import signal
import subprocess

import pytest
from desks import COLOUR, SCRIPT, UTF8, Desk, SizedTerminal, assert_refused, assert_told

QUESTION = "Who is on call, and when is the week handed over?"
LINE = re.compile(
    r"first token in [\d,]+ ms \[[#=%@*o]{12}\] of [\d,]+ tokens: [\d,]+ exact, [\d,]+ prefilled; "
    r"--verify tells the speed-up"
)


@pytest.mark.parametrize("num_columns", [40, 80, 200])
def test_the_report_fits_its_terminal_and_the_answer_alone_is_on_stdout(desk: Desk, num_columns: int) -> None:
    answer = desk.root / "answer.txt"
    ask = ("ask", QUESTION, "-d", "on-call.md", "-d", "access.md")
    lines = SizedTerminal(desk, num_columns, *ask, stdout=answer, **UTF8).lines()
    assert max(map(len, lines)) <= num_columns
    text = " ".join(" ".join(lines).split())
    assert re.search(r"tokens: [\d,]+ prompt = .* exact \+ .* repaired \(question\) \+ .* prefilled; 3 generated", text)
    assert re.search(r"speed-up: --verify tells the speed-up", text)
    assert "\u2588" in text
    assert answer.read_text() == desk.facts(*ask)["answer"] + "\n"


def test_no_color_means_no_colour_and_a_c_locale_ascii_alone(desk: Desk) -> None:
    coloured = SizedTerminal(desk, 80, "ask", QUESTION, "-d", "on-call.md", stdout=desk.root / "a", **UTF8)
    assert coloured.finish() == 0
    assert COLOUR.search(coloured.shown)
    plain = SizedTerminal(
        desk, 40, "ask", QUESTION, "-d", "on-call.md", stdout=desk.root / "b", LC_ALL="C", NO_COLOR="1"
    )
    assert plain.finish() == 0
    assert not COLOUR.search(plain.shown)
    assert plain.shown.isascii()
    assert "# tokenize" in " ".join(plain.shown.split())
    progress = SizedTerminal(desk, 40, "index", str(desk.docs), "--force", LC_ALL="C", NO_COLOR="1")
    assert progress.finish() == 0
    assert progress.shown.isascii()
    assert (desk.root / "a").read_bytes() == (desk.root / "b").read_bytes(), "the answer is what it is in any locale"


def test_a_report_is_a_line_or_nothing_if_that_is_wanted(desk: Desk) -> None:
    ask = ("ask", QUESTION, "-d", "on-call.md")
    line = desk.run(*ask, "--report", "line")
    assert LINE.fullmatch(line.stderr.strip()), line.stderr
    none = desk.with_env(KVBOOST_REPORT="none").run(*ask)
    assert (none.returncode, none.stderr) == (0, "")
    assert none.stdout == line.stdout
    assert_refused(desk.run(*ask, "--report", "short"), 2, "--report should be full, line or none: 'short'")


def test_a_verified_ask_gives_later_ones_an_estimate(desk: Desk) -> None:
    ask = ("ask", QUESTION, "-d", "on-call.md")
    verified = desk.facts(*ask, "--verify")
    assert verified["estimate"] is None, "what was measured needs no estimate"
    later = desk.facts(*ask)
    assert later["estimate"]["reference_ttft_s"] == verified["verify"]["reference_ttft_s"]
    assert later["estimate"]["speedup"] == pytest.approx(
        later["estimate"]["reference_ttft_s"] / later["ttft"]["total_s"]
    )
    assert "x as fast as full prefill, by an earlier --verify" in desk.run(*ask, "--report", "line").stderr


def test_several_questions_are_answered_by_one_model(desk: Desk) -> None:
    desk.write("questions.txt", "Who is on call?\n\n  Which ports are open? \n")
    told = desk.run("ask", "-f", "questions.txt", "-d", "on-call.md", "--json")
    assert told.returncode == 0, told.stderr
    first, second = (json.loads(line) for line in told.stdout.splitlines())
    assert (first["question"], second["question"]) == ("Who is on call?", "Which ports are open?")
    assert first["startup"] == second["startup"], "it was loaded once"
    alone = desk.facts("ask", "Which ports are open?", "-d", "on-call.md")
    assert (alone["answer"], "question" in alone) == (second["answer"], False)
    shown = desk.run("ask", "-f", "-", "-d", "on-call.md", "--report", "line", stdin="Who is on call?\nWhich ports?\n")
    assert re.search(r"^\[1/2\] Who is on call\?\nfirst token .*\n\[2/2\] Which ports\?\nfirst token ", shown.stderr)
    assert shown.stdout.startswith(first["answer"] + "\n\n")
    assert desk.facts("stats")["asks"]["count"] == 5


def test_a_question_that_fails_does_not_end_the_rest(desk: Desk) -> None:
    questions = "Who is on call?\nxyzzyx qwrtzp?\nWhat does a week on call earn?\n"
    done = desk.run("ask", "-f", "-", "--top-k", "1", "--json", stdin=questions)
    assert done.returncode == 3
    good, bad, last = (json.loads(line) for line in done.stdout.splitlines())
    assert (bad["question"], sorted(bad)) == ("xyzzyx qwrtzp?", ["error", "next", "question"])
    assert "no indexed document has a word of the question" in bad["error"]
    assert good["answer"]
    assert last["answer"]
    assert '"error": "no indexed document' in done.stderr
    plain = desk.run("ask", "-f", "-", "--top-k", "1", "-q", stdin=questions)
    assert plain.returncode == 3
    assert_told(plain, "no indexed document has a word of the question")
    assert plain.stdout.split() == f"{good['answer']} {last['answer']}".split()


@pytest.mark.parametrize(
    ("args", "stdin", "fact"),
    [
        ((), "", "give one question, or a file of questions with -f"),
        (("q", "-f", "questions.txt"), "", "give one question, or a file of questions with -f"),
        (("-f", "nowhere.txt"), "", "No such file or directory: nowhere.txt"),
        (("-f", "-"), " \n\n", "there is no question in: -"),
        (("-",), " \n", "the question is empty"),
    ],
)
def test_without_a_question_nothing_is_loaded(desk: Desk, args: tuple[str, ...], stdin: str, fact: str) -> None:
    assert_refused(desk.run("ask", *args, stdin=stdin), 2, fact)


def test_ctrl_c_ends_the_answer_and_reports_what_there_is_of_it(desk: Desk) -> None:
    long = ("-d", "on-call.md", "--max-tokens", "3000", "--temperature", "2", "--report", "line")
    shown = SizedTerminal(desk, 200, "ask", QUESTION, *long, **UTF8)
    assert shown.read_until(r"\S+ \S+"), "the answer has begun"
    os.write(shown._main, b"\x03")  # the key itself: the terminal makes the signal of it
    assert shown.finish() == 130
    assert re.search(r"\r\nfirst token in .*kvboost: error: interrupted\.", shown.shown, re.DOTALL)
    assert "Traceback" not in shown.shown
    assert desk.facts("stats")["documents"] == 8


def test_ctrl_c_in_json_gives_the_object_and_ends_all_questions(desk: Desk) -> None:
    desk.write("questions.txt", "Who is on call?\nWhich ports are open?\n")
    long = ("-d", "on-call.md", "--max-tokens", "3000", "--temperature", "2")
    process = desk.start("ask", "-f", "questions.txt", *long, "--json")
    assert process.stderr is not None
    assert process.stderr.readline() == "[1/2] Who is on call?\n"
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            out, told = process.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode == 130
    assert "Traceback" not in told
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["finish_reason"] for line in lines] in ([], ["interrupted"]), "none if it came before the first token"


def test_a_reader_of_several_answers_may_go_away(desk: Desk) -> None:
    command = f"'{SCRIPT}' ask -f - -d on-call.md --max-tokens 100 | head -c 1 | wc -c; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=desk.root, env=desk.env, input="One?\nTwo?\nThree?\n" * 3, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "1")
    assert "error" not in done.stderr


def test_a_misspelt_document_gets_suggestions(desk: Desk) -> None:
    for name, meant in (("oncall", "on-call.md"), ("ON-CALL.MD", "on-call.md"), ("acess", "access.md")):
        assert_refused(desk.run("ask", "q", "-d", name), 2, f"(did you mean {meant}?): {name}")
        assert_refused(desk.run("forget", name), 2, f"(did you mean {meant}?): {name}")
