import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path

import pytest

from kvboost_cli.commands import MODULES
from kvboost_cli.commands.failures import FAILURES, find_failure

SCRIPT = Path(sys.executable).with_name("kvboost")
HEAVY = {"torch", "transformers", "numpy", "lmdb", "rich", "huggingface_hub", "bm25s"}

Kvboost = Callable[..., subprocess.CompletedProcess[str]]


def imported_modules(*args: str) -> set[str]:
    """Top-level names of everything that one run of the script imports."""
    command = [sys.executable, "-X", "importtime", SCRIPT, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(re.findall(r"^import time:.*\| +([A-Za-z_0-9]+)", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("path", "--help"), ("models", "--help")])
def test_help_and_version_import_nothing_heavy(args: tuple[str, ...]) -> None:
    assert imported_modules(*args) & HEAVY == set()


@pytest.mark.parametrize("args", [("path",), ("models", "list")])
def test_commands_that_need_no_model_start_without_torch(args: tuple[str, ...]) -> None:
    assert imported_modules(*args) & {"torch", "transformers", "numpy"} == set()


def test_help_lists_every_command(kvboost: Kvboost) -> None:
    done = kvboost("--help")
    assert done.returncode == 0
    assert all(re.search(rf"^  {name}\b", done.stdout, re.MULTILINE) for name in MODULES)
    assert done.stderr == ""


def test_a_bare_call_shows_the_help(kvboost: Kvboost) -> None:
    bare, asked = kvboost(), kvboost("--help")
    assert (bare.returncode, bare.stdout) == (0, asked.stdout)


def test_version_is_that_of_the_distribution(kvboost: Kvboost) -> None:
    assert re.fullmatch(r"kvboost \d+\.\d+\.\d+\n", kvboost("--version").stdout)


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        (("serve",), "No such command 'serve'."),
        (("pth",), "No such command 'pth'. Did you mean 'path'?"),
        (("path", "--stoer", "x"), "No such option: --stoer (Possible options: --json, --store)"),
        (("path", "--store"), "Option '--store' requires an argument."),
        (("models",), "Missing command."),
    ],
)
def test_a_usage_error_is_one_line_with_the_next_step(kvboost: Kvboost, args: tuple[str, ...], fact: str) -> None:
    done = kvboost(*args)
    assert (done.returncode, done.stdout) == (2, "")
    error, next_step = done.stderr.splitlines()
    assert error == f"kvboost: error: {fact.removesuffix('.')}."
    assert re.fullmatch(r"  next: `kvboost.* --help` shows the usage", next_step)


def test_an_error_with_json_is_one_object_on_stderr(kvboost: Kvboost) -> None:
    done = kvboost("path", "--json", env={"KVBOOST_BITS": "3"})
    assert (done.returncode, done.stdout) == (2, "")
    told = json.loads(done.stderr)
    assert told["error"] == "KVBOOST_BITS should be 4, 8 or 16: '3'"
    assert "kvboost config path" in told["next"]


def test_files_in_the_working_directory_do_not_replace_our_modules(kvboost: Kvboost, tmp_path: Path) -> None:
    for name in ("store", "kvboost_cli", "typer", "torch"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a decoy was imported')")
    assert kvboost("path").returncode == 0
    assert kvboost("models", "list").returncode == 0


def test_path_names_the_places_in_use(kvboost: Kvboost, tmp_path: Path) -> None:
    (tmp_path / "kvboost.toml").touch()
    places = json.loads(kvboost("path", "--json").stdout)
    assert places == {
        "store": str(tmp_path / ".kvboost"),
        "models": str(tmp_path / "data/kvboost/models"),
        "cache": str(tmp_path / "cache/kvboost"),
        "user_config": str(tmp_path / "config/kvboost/config.toml"),
        "project_config": str(tmp_path / "kvboost.toml"),
        "chat_history": str(tmp_path / "data/kvboost/chat-history"),
    }
    assert f"store: {places['store']}\n" in kvboost("path").stdout


def test_path_follows_the_flag(kvboost: Kvboost) -> None:
    assert kvboost("path", "--store", "/kv").stdout.startswith("store: /kv\n")


def test_a_model_that_is_not_fetched_is_listed_as_such(kvboost: Kvboost) -> None:
    (model,) = json.loads(kvboost("models", "list", "--json").stdout)["models"]
    assert model == {"name": "SmolLM2-135M-Instruct", "is_default": True, "path": None, "num_bytes": None}
    assert "not pulled" in kvboost("models", "list").stdout


@pytest.mark.parametrize("args", [("path",), ("--help",), ("models", "list", "--json")])
def test_a_reader_that_goes_away_is_no_error(home_env: dict[str, str], args: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [SCRIPT, *args], stdout=write_end, stderr=subprocess.PIPE, text=True, env=home_env, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_under_stdout_is_told(home_env: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SCRIPT, "path"], stdout=full, stderr=subprocess.PIPE, text=True, env=home_env, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("kvboost: error: No space left on device.\n  next: ")


RUN_WITH_FAULT = """
import typer
from kvboost_cli import main
def fault() -> None:
    {statement}
main.app.command("fault")(fault)
main.run()
"""


def run_fault(statement: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """One run of the real entry point with one more command, whose body is `statement`."""
    command = [sys.executable, "-c", RUN_WITH_FAULT.format(statement=statement), "fault"]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_an_unforeseen_error_is_one_line_and_asks_for_a_report(home_env: dict[str, str]) -> None:
    done = run_fault("{}['a']", home_env)
    assert done.returncode == 1
    assert done.stderr.startswith("kvboost: error: internal error: KeyError: 'a'.\n  next: ")
    assert "KVBOOST_DEBUG=1" in done.stderr


def test_debug_shows_the_traceback_of_an_unforeseen_error(home_env: dict[str, str]) -> None:
    done = run_fault("{}['a']", home_env | {"KVBOOST_DEBUG": "1"})
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr


def test_a_command_chooses_its_exit_code(home_env: dict[str, str]) -> None:
    done = run_fault("raise typer.Exit(3)", home_env)
    assert (done.returncode, done.stderr) == (3, "")


def test_an_interrupt_ends_with_130_and_no_traceback(home_env: dict[str, str]) -> None:
    statement = "import time; print('ready', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", RUN_WITH_FAULT.format(statement=statement), "fault"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home_env) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130
    assert told.startswith("kvboost: error: interrupted.\n  next: ")
    assert "Traceback" not in told


def our_errors() -> Iterator[type[Exception]]:
    for path in sorted(Path(__file__).parents[1].glob("*/**/errors.py")):
        folder = path.relative_to(Path(__file__).parents[1]).parent
        if folder.parts[0] in ("kvboost_cli", "store"):
            module = import_module(".".join((*folder.parts, "errors")))
            yield from (cls for _, cls in getmembers(module, isclass) if cls.__module__ == module.__name__)


def test_every_error_of_ours_has_an_exit_code_and_a_next_step() -> None:
    unknown = [cls.__name__ for cls in our_errors() if not any(base.__name__ in FAILURES for base in cls.__mro__)]
    assert unknown == []


def test_no_two_errors_share_a_name() -> None:
    names = [cls.__name__ for cls in our_errors()]
    assert sorted(set(names)) == sorted(names)


def test_the_table_names_no_error_that_is_gone() -> None:
    known = {cls.__name__ for cls in our_errors()}
    foreign = {"SettingsError", "SettingsFileExists", "KeyboardInterrupt", "MemoryError", "OutOfMemoryError", "OSError"}
    assert set(FAILURES) <= known | foreign


def test_the_nearest_base_decides() -> None:
    assert find_failure(PermissionError()) is FAILURES["OSError"]
    assert find_failure(ZeroDivisionError()) is None


@pytest.mark.parametrize("command", ["ask", "index"])
def test_a_closed_standard_input_is_a_usage_error(home_env: dict[str, str], tmp_path: Path, command: str) -> None:
    line = f"exec '{SCRIPT}' {command} - <&-"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=home_env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "standard input is closed" in done.stderr
