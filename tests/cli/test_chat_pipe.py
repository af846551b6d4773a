"""`chat` in a pipe: a question a line, answers alone on stdout, commands among them, all else on stderr."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from desks import SCRIPT, Desk, assert_refused, assert_told
from test_ask_for_people import QUESTION

FIRST = re.compile(r"^first token in [\d,]+ ms \[[#=%@*o]{12}\] of [\d,]+ tokens: [\d,]+ exact, [\d,]+ prefilled$")
LATER = re.compile(
    r"^first token in [\d,]+ ms \[[#=%@*o]{12}\] of [\d,]+ tokens: [\d,]+ live of documents, "
    r"[\d,]+ live of earlier turns, [\d,]+ prefilled$"
)
TALK = f"{QUESTION}\n\nAnd who is called first?\n"


def turns(done: "subprocess.CompletedProcess[str]") -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_line_is_a_turn_and_the_report_tells_what_was_live(desk: Desk) -> None:
    done = desk.run("chat", "-d", "on-call.md", stdin=TALK)
    assert done.returncode == 0, done.stderr
    asked, first, again, later = done.stderr.splitlines()
    assert (asked, again) == (f"[1] {QUESTION}", "[2] And who is called first?")
    assert FIRST.match(first), first
    assert LATER.match(later), later
    told = turns(desk.run("chat", "-d", "on-call.md", "--json", stdin=TALK))
    assert done.stdout == f"{told[0]['answer']}\n\n{told[1]['answer']}\n"
    assert told[0]["answer"] == desk.facts("ask", QUESTION, "-d", "on-call.md")["answer"], "the first turn is an ask"


def test_json_is_a_line_for_each_turn_whose_counts_sum_up(desk: Desk) -> None:
    done = desk.run("chat", "-d", "on-call.md", "-d", "access.md", "--json", "-q", stdin=TALK)
    assert (done.returncode, done.stderr) == (0, "")
    first, later = turns(done)
    assert (first["turn"], later["turn"], later["question"]) == (1, 2, "And who is called first?")
    for told in (first, later):
        tokens, ttft = dict(told["tokens"]), dict(told["ttft"])  # type: ignore[call-overload]
        assert sum(n for name, n in tokens.items() if name not in ("prompt", "generated")) == tokens["prompt"]
        assert sum(s for name, s in ttft.items() if name != "total_s") == pytest.approx(ttft["total_s"])
    assert later["documents"] == first["documents"]
    assert later["startup"] == first["startup"], "it was loaded once"
    assert later["repair"] == {"strategy": "none", "ratio": None}


def test_only_what_is_stitched_counts_as_an_ask(desk: Desk) -> None:
    before = desk.facts("stats")["asks"]["count"]
    lines = f"{TALK}/add access.md\nWho has the key?\nAnd since when?\n"
    told = turns(desk.run("chat", "-d", "on-call.md", "--json", stdin=lines))
    assert [dict(turn["tokens"])["live_documents"] > 0 for turn in told] == [False, True, False, True]  # type: ignore[call-overload]
    assert desk.facts("stats")["asks"]["count"] == before + 2
    asks = desk.facts("history")["asks"]
    assert [[d["path"].rsplit("/")[-1] for d in ask["documents"]] for ask in asks[:2]] == [
        ["on-call.md", "access.md"],
        ["on-call.md"],
    ]


def test_documents_are_added_dropped_and_ordered(desk: Desk) -> None:
    desk.write("own.md", "The password is okapi.\n")
    lines = "/add acc* own.md\n/order own.md 2\n/docs\n/drop on-call.md\nWhat is the password?\n/docs\n/add own.md\n"
    done = desk.run("chat", "-d", "on-call.md", "--report", "none", stdin=lines)
    assert done.returncode == 0, done.stderr
    tables = re.findall(r"^(\d) +(\S+) +[\d,]+ +(.+)$", done.stderr, re.MULTILINE)
    shown = [(number, name) for number, name, _hit in tables]
    assert shown[:3] == [("1", "on-call.md"), ("2", "access.md"), ("3", "own.md")]
    assert shown[3:6] == shown[6:9] == [("1", "own.md"), ("2", "access.md"), ("3", "on-call.md")]
    assert shown[9:11] == [("1", "own.md"), ("2", "access.md")]
    assert tables[-2:] == [("1", "own.md", "miss"), ("2", "access.md", "content")]
    assert "they are all there already" in done.stderr
    assert "keeping what was computed" in done.stderr
    assert desk.facts("ask", "q", "-d", "own.md")["documents"][0]["hit"] == "exact"


def test_the_search_chooses_once_and_a_new_conversation_has_it_choose_again(desk: Desk) -> None:
    lines = f"{QUESTION}\nWhich ports are open?\n/docs\n/new\nWhich ports are open?\n/stats\n"
    done = desk.run("chat", "--top-k", "1", "--json", stdin=lines)
    names = [[d["path"].rsplit("/")[-1] for d in told["documents"]] for told in turns(done)]  # type: ignore[attr-defined]
    assert names[0] == names[1] == ["on-call.md"]
    assert len(names[2]) == 1
    assert names[2] != names[0], "it chose for the other question"
    assert [told["turn"] for told in turns(done)] == [1, 2, 1]
    assert "chosen by the search for the first question" in done.stderr
    assert re.search(r"in the live cache: [\d,]+ of the context's 4,096 tokens; documents [\d,]+, turns", done.stderr)


REFUSED = {
    "/hlep": "a chat has no such command (did you mean /help?): /hlep",
    "/xyz": "a chat has no such command: /xyz",
    "/": "a chat has no such command: /",
    "/add": "/add needs documents, as in `/add DOC...`",
    "/add ''": "a document's name is empty: /add ''",
    "/new now": "/new takes no words: /new now",
    "/add 'on-call.md": "a quotation mark has no partner: /add 'on-call.md",
    "/add oncall": "there is no such document or file (did you mean on-call.md?): oncall",
    "/add *.xyz": "no document and no file fits the pattern: *.xyz",
    "/drop 7": "the conversation has no such document: 7",
    "/drop acess.md": "the conversation has no such document (did you mean access.md?): acess.md",
    "/order -1": "the conversation has no such document: -1",
    "xyzzyx " * 2000: "the prompt does not fit the model's context of 4,096 tokens",
}


def test_a_line_that_is_refused_is_told_and_the_rest_goes_on(desk: Desk) -> None:
    done = desk.run("chat", "-d", "access.md", "-q", stdin="".join(f"{line}\n" for line in REFUSED))
    assert (done.returncode, done.stdout) == (3, "")
    assert_told(done, list(REFUSED.values())[-1])
    facts, steps = done.stderr.splitlines()[::2], done.stderr.splitlines()[1::2]
    for told, fact in zip(facts, REFUSED.values(), strict=True):
        assert told.startswith(f"kvboost: error: {fact}"), told
    assert all(re.fullmatch(r"  next: \S.*", step) for step in steps)


def test_a_question_that_fails_is_told_in_json_too(desk: Desk) -> None:
    done = desk.run("chat", "--top-k", "1", "--json", "-q", stdin=f"qwrtzp xyzzyx?\n{QUESTION}\n/bad\n")
    assert done.returncode == 3
    bad, good, refused = turns(done)
    assert sorted(bad) == ["error", "next", "question"]
    assert "no indexed document has a word of the question" in str(bad["error"])
    assert good["turn"] == 1
    assert refused["question"] == "/bad"


def test_a_conversation_that_outgrows_the_context_says_what_to_do(desk: Desk) -> None:
    done = desk.run("chat", "-d", "access.md", "-q", "--json", stdin=f"Who?\n{'wave ' * 2000}\nAnd who else?\n")
    assert done.returncode == 3
    first, refused, later = turns(done)
    assert str(refused["error"]).startswith("the conversation does not fit the model's context of 4,096 tokens; ")
    assert refused["next"] == "take documents out with `/drop`, or begin a new conversation with `/new`"
    assert (first["turn"], later["turn"], later["question"]) == (1, 2, "And who else?")


def test_a_backslash_adds_a_line_and_a_blank_makes_a_question_of_a_path(desk: Desk) -> None:
    told = turns(desk.run("chat", "-d", "access.md", "--json", stdin="What is\\\nthis?\n /etc/hosts?\\"))
    assert [turn["question"] for turn in told] == ["What is\nthis?", "/etc/hosts?"]


def test_a_document_is_added_by_a_name_that_is_no_text(desk: Desk) -> None:
    name = b"caf\xe9.md"
    (desk.root / os.fsdecode(name)).write_text("The password is okapi.\n")
    done = desk.run("chat", "-q", "--json", stdin=b"/add " + name + b"\nWhat is caf\xe9?\n")
    assert done.returncode == 0, done.stderr
    (told,) = turns(done)
    assert told["question"] == "What is caf\ufffd?"
    assert len(told["documents"]) == 1  # type: ignore[arg-type]


def test_a_full_disk_behind_stderr_costs_no_answer(desk: Desk) -> None:
    with open("/dev/full", "w") as full:
        process = desk.start("chat", "-d", "on-call.md", stdin=subprocess.PIPE, stderr=full)
        out, _none = process.communicate("Who?\n")
    assert (process.returncode, bool(out.strip())) == (0, True)


def test_what_the_search_index_cannot_keep_is_a_warning_behind_the_answer(desk: Desk) -> None:
    desk.write("own.md", "The password is okapi.\n")
    (desk.store / "search.sqlite").unlink()
    (desk.store / "search.sqlite").mkdir()
    done = desk.run("chat", "-d", "own.md", "--json", "-q", stdin="What is the password?\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("kvboost: warning: nothing was kept of this ask, ")
    assert len(turns(done)) == 1


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        (("-d", "nowhere.md"), "there is no such document or file"),
        (("-d", ""), "a document's name is empty"),
        (("--repair", "none", "--ratio", "0.5"), "there is nothing to repair"),
        (("--report", "short"), "--report should be full, line or none: 'short'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(desk: Desk, args: tuple[str, ...], fact: str) -> None:
    assert_refused(desk.run("chat", *args), 2, fact)


def test_without_a_store_nothing_can_be_searched_and_a_file_makes_one(bare_desk: Desk) -> None:
    assert_refused(bare_desk.run("chat"), 1, "there is no store at")
    bare_desk.write("own.md", "The password is okapi.\n")
    done = bare_desk.run("chat", "-d", "own.md", stdin="What is the password?\n/quit\nNever read?\n")
    assert (done.returncode, "Never read" in done.stderr) == (0, False)
    assert bare_desk.facts("stats")["documents"] == 1


def test_commands_need_no_torch_and_a_pipe_no_line_editor(desk: Desk) -> None:
    command = [sys.executable, "-X", "importtime", SCRIPT, "chat", "-d", "on-call.md"]
    lines = "/help\n/docs\n/add access.md\n/order 2\n/drop 1\n/stats\n/new\n"
    done = subprocess.run(command, cwd=desk.root, env=desk.env, input=lines, capture_output=True, text=True, check=True)
    imported = set(re.findall(r"^import time:.*\| +([\w.]+)", done.stderr, re.MULTILINE))
    assert imported & {"torch", "transformers", "prompt_toolkit"} == set()
    assert "/order DOC..." in done.stderr
    assert "Alt-Enter, or a backslash" in done.stderr


def test_a_reader_may_go_away(desk: Desk) -> None:
    command = f"'{SCRIPT}' chat -d on-call.md --max-tokens 100 | head -c 1 | wc -c; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=desk.root, env=desk.env, input="One?\nTwo?\nThree?\n" * 3, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "1")
    assert "error" not in done.stderr


def test_ctrl_c_ends_a_chat_that_nobody_types_into(desk: Desk) -> None:
    long = ("-d", "on-call.md", "--max-tokens", "3000", "--temperature", "2")
    process = desk.start("chat", *long, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("Who?\nAnd who else?\n")
    process.stdin.flush()
    assert process.stdout.read(1), "the answer has begun"
    process.send_signal(signal.SIGINT)
    _out, told = process.communicate()
    assert process.returncode == 130, told
    assert "kvboost: error: interrupted." in told
    assert "Traceback" not in told


def test_a_model_that_cannot_reuse_answers_by_full_prefill_or_says_so(failing: Desk) -> None:
    failing.run("index", "docs", "-q")
    done = failing.run("chat", "-d", "on-call.md", "-d", "access.md", stdin="Who?\nAnd who else?\n")
    assert done.returncode == 0
    assert "since this model failed its check" in done.stderr
    assert not re.search(r"\d (reused|repaired)", done.stderr)
