import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvboost_cli import console
from kvboost_cli.progress import IndexProgress, StepProgress, describe_progress, describe_steps
from kvboost_cli.sheet import bar_cells

ESCAPE = "\x1b["
COLOUR = re.compile("\x1b\\[[0-9;]*3[0-7]m")


def run_python(code: str, **options: object) -> "subprocess.CompletedProcess[str]":
    program = f"from kvboost_cli import console\nfrom kvboost_cli.progress import IndexProgress, StepProgress\n{code}"
    return subprocess.run([sys.executable, "-c", program], text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def run_on_terminal(code: str, env: dict[str, str]) -> str:
    """What `code` shows on a real pseudo-terminal as stderr."""
    main, terminal = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = run_python(code, stderr=terminal, env=clean | {"TERM": "xterm-256color"} | env)
    os.close(terminal)
    assert done.returncode == 0
    shown = b""
    while piece := _read_terminal(main):
        shown += piece
    os.close(main)
    return shown.decode()


def _read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux says EIO when the other end is closed
        return b""


TABLE = "console.render_table('Phases', ('phase', 'seconds'), [('load', '0.1'), ('repair', '12.5')])"
BAR = "console.render_bar([('load', 1.0), ('repair', 3.0)], 8)"
PROGRESS = "with console.index_progress(quiet=False) as show: show(IndexProgress(1, 2, 100, 200, 3, 400))"
STEPS = "with console.step_progress('asking', quiet=False) as show: show(StepProgress(1, 2, 'prompts'))"


def test_a_table_off_a_terminal_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    console.render_table("Phases", ("phase", "seconds"), [("load", "0.1"), ("repair", "12.5")])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "Phases\nphase   seconds\nload        0.1\nrepair     12.5\n"


def test_a_table_of_data_goes_to_stdout_and_cuts_no_long_path(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/very" * 30
    console.render_table("", ("name", "path"), [("[red]a[/red]", path)], data=True)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines()[1] == f"[red]a[/red]  {path}"


def test_a_bar_off_a_terminal_uses_marks(capsys: pytest.CaptureFixture[str]) -> None:
    console.render_bar([("load", 1.0), ("repair", 3.0)], 8)
    assert capsys.readouterr().err == "  ##======\n  # load = repair\n"


@pytest.mark.parametrize("code", [TABLE, BAR, PROGRESS, STEPS])
def test_a_terminal_gets_escape_codes_and_a_pipe_does_not(code: str) -> None:
    assert ESCAPE in run_on_terminal(code, {})
    assert ESCAPE not in run_python(code, stderr=subprocess.PIPE).stderr


@pytest.mark.parametrize("code", [TABLE, BAR, PROGRESS, STEPS])
def test_no_color_is_honoured_on_a_terminal(code: str) -> None:
    assert not COLOUR.search(run_on_terminal(code, {"NO_COLOR": "1"}))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.integers(1, 200))
def test_a_bar_is_filled_exactly(values: list[float], width: int) -> None:
    cells = bar_cells(values, width)
    assert sum(cells) == (width if sum(values) > 0 else 0)
    assert all(0 <= count <= value / (sum(values) or 1) * width + 1 for count, value in zip(cells, values, strict=True))


def test_progress_tells_counts_rate_and_time_left() -> None:
    told = describe_progress(IndexProgress(1, 4, 1000, 3000, 9, 3000), elapsed_s=30.0)
    assert told == "1/4 documents, 9 chunks, 100 tokens/s, 1:00 left"


def test_progress_without_a_token_yet_tells_counts_only() -> None:
    assert describe_progress(IndexProgress(0, 4, 0, 4000, 0, 0), elapsed_s=0.0) == "0/4 documents, 0 chunks"


def test_progress_off_a_terminal_ends_with_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    with console.index_progress(quiet=False) as show:
        for done in (1, 2):
            show(IndexProgress(done, 2, done * 10, 20, done, 0))
    assert capsys.readouterr().err == "indexed: 2/2 documents, 2 chunks\n"


def test_steps_tell_their_unit_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert describe_steps(StepProgress(2, 5, "prompts"), elapsed_s=50.0) == "2/5 prompts, 1:15 left"
    with console.step_progress("fact: asking", quiet=False) as show:
        show(StepProgress(1, 2, "prompts"))
        show(StepProgress(2, 2, "prompts"))
    assert capsys.readouterr().err == "fact: asking: 2/2 prompts\n"


def test_quiet_progress_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with console.index_progress(quiet=True) as show:
        show(IndexProgress(1, 1, 10, 10, 1, 1))
    assert capsys.readouterr().err == ""


def test_progress_ends_cleanly_when_the_work_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with console.index_progress(quiet=False) as show:
            show(IndexProgress(1, 2, 10, 20, 1, 0))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
    assert capsys.readouterr().err == ""


def test_an_error_is_one_fact_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    console.fail("there is no store\nat /x", "run it")
    assert capsys.readouterr().err == "kvboost: error: there is no store at /x.\n  next: run it\n"


def test_an_error_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    console.fail("no store: ü", None, as_json=True)
    assert json.loads(capsys.readouterr().err) == {"error": "no store: ü", "next": None}


def test_json_prints_paths_and_readable_text(capsys: pytest.CaptureFixture[str]) -> None:
    console.write_json({"path": Path("/a"), "text": "naïve"})
    assert capsys.readouterr().out == '{\n  "path": "/a",\n  "text": "naïve"\n}\n'


def test_a_file_name_that_is_not_utf8_can_be_printed() -> None:
    code = "console.prepare_streams(); console.write_json({'p': '\\udcff'}); console.warn('\\udcff')"
    done = run_python(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(done.stdout) == {"p": "\udcff"}
    assert done.stderr == "kvboost: warning: \\udcff\n"


def test_json_in_another_encoding_is_still_json() -> None:
    env = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = run_python("console.prepare_streams(); console.write_json({'t': 'é€'})", stdout=subprocess.PIPE, env=env)
    assert json.loads(done.stdout) == {"t": "é€"}


def test_work_goes_on_when_nobody_reads_stderr() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = "console.say('a'); console.render_bar([('x', 1.0)]); console.say('b'); console.write('done')"
    done = run_python(code, stdout=subprocess.PIPE, stderr=write_end)
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "done")


def test_streams_that_were_closed_at_start_are_replaced() -> None:
    code = f"{sys.executable} -c 'from kvboost_cli import console as c; c.prepare_streams(); c.say(1); c.write(\"x\")'"
    done = subprocess.run(["sh", "-c", f"{code} 2>&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "x")
