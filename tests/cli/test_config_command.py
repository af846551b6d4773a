"""`kvboost config`: what is set and where, told by the real script."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from desks import assert_refused

Kvboost = Callable[..., "CompletedProcess[str]"]


def test_show_names_flag_variable_and_files(kvboost: Kvboost, tmp_path: Path) -> None:
    (tmp_path / "kvboost.toml").write_text("top_k = 3\nbits = 16\n")
    done = kvboost("config", "show", "--device", "cpu", "--json", env={"KVBOOST_BITS": "4"})
    told = json.loads(done.stdout)
    origins = {one["key"]: (one["value"], one["origin"], one["place"]) for one in told["settings"]}
    assert origins["top_k"] == (3, "project", str(tmp_path / "kvboost.toml"))
    assert origins["bits"] == (4, "environment", "KVBOOST_BITS")
    assert origins["device"] == ("cpu", "flag", "--device")
    assert origins["order"] == ("given", "default", None)
    assert told["store_dir"] == str(tmp_path / ".kvboost")
    shown = kvboost("config", "show").stdout
    assert any(line.split() == ["top_k", "3", str(tmp_path / "kvboost.toml")] for line in shown.splitlines())
    assert any(line.split() == ["store", str(tmp_path / ".kvboost"), "default"] for line in shown.splitlines())


def test_show_warns_about_a_variable_that_sets_nothing(kvboost: Kvboost) -> None:
    done = kvboost("config", "show", env={"KVBOOST_BIT": "4"})
    assert done.returncode == 0
    told = "kvboost: warning: this variable sets nothing (did you mean KVBOOST_BITS?): KVBOOST_BIT\n"
    assert done.stderr == told


def test_init_begins_a_file_and_replaces_none_unless_told(kvboost: Kvboost, tmp_path: Path) -> None:
    path = tmp_path / "kvboost.toml"
    assert kvboost("config", "init").stdout == f"{path}\n"
    path.write_text("top_k = 7\n")
    assert_refused(kvboost("config", "init"), 2, f"there is a settings file already: {path}")
    assert path.read_text() == "top_k = 7\n"
    assert kvboost("config", "init", "--force").returncode == 0
    assert "top_k = 7" not in path.read_text()


def test_the_users_file_is_made_where_it_is_looked_for(kvboost: Kvboost, tmp_path: Path) -> None:
    path = tmp_path / "config" / "kvboost" / "config.toml"
    assert kvboost("config", "path").stdout == f"project: -\nuser: {path} (not there)\n"
    assert kvboost("config", "init", "--user").stdout == f"{path}\n"
    assert json.loads(kvboost("config", "path", "--json").stdout) == {
        "project": None, "user": str(path), "user_exists": True,
    }  # fmt: skip


def test_a_wrong_value_ends_every_command_with_file_key_and_values(kvboost: Kvboost, tmp_path: Path) -> None:
    (tmp_path / "kvboost.toml").write_text('contexts = "2"\n')
    for command in (("config", "show"), ("path",), ("stats",), ("index", ".")):
        fact = f"{tmp_path / 'kvboost.toml'}: contexts should be a whole number from 0 to 64: '2'"
        assert_refused(kvboost(*command), 2, fact)
