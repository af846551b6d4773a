from dataclasses import fields
from pathlib import Path

import pytest

from kvboost_cli import settings
from kvboost_cli.settings import SettingsError, default_store_path, find_project_file, load_settings


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project directory as the working directory, and an empty user configuration."""
    for field in fields(settings.Settings):
        monkeypatch.delenv(f"KVBOOST_{field.name.upper()}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write_user_config(text: str) -> Path:
    path = settings.user_config_file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def message(flags: dict[str, object]) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_without_any_source_the_defaults_hold() -> None:
    assert load_settings({}) == settings.Settings()


def test_each_source_overrides_the_one_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_user_config("top_k = 1\nmax_tokens = 1\nbits = 16\ncontexts = 1")
    (project / "kvboost.toml").write_text("top_k = 2\nmax_tokens = 2\nbits = 8")
    monkeypatch.setenv("KVBOOST_TOP_K", "3")
    monkeypatch.setenv("KVBOOST_MAX_TOKENS", "3")
    found = load_settings({"top_k": 4})
    assert (found.top_k, found.max_tokens, found.bits, found.contexts) == (4, 3, 8, 1)


def test_a_flag_that_was_not_given_overrides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBOOST_MODEL", "some/model")
    assert load_settings({"model": None}).model == "some/model"


def test_a_flag_set_to_the_default_value_still_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBOOST_DEVICE", "cuda")
    assert load_settings({"device": "auto"}).device == "auto"


def test_an_empty_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBOOST_BITS", "")
    assert load_settings({}).bits is None


def test_text_from_the_environment_becomes_typed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBOOST_BITS", "4")
    monkeypatch.setenv("KVBOOST_TEMPERATURE", "0.5")
    monkeypatch.setenv("KVBOOST_EXACT", "false")
    monkeypatch.setenv("KVBOOST_STORE", "~/kv")
    found = load_settings({})
    assert (found.bits, found.temperature, found.exact) == (4, 0.5, False)
    assert found.store_dir == Path.home() / "kv"


def test_the_project_file_is_found_from_a_subdirectory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "kvboost.toml").write_text('model = "m/x"')
    below = project / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_project_file(Path.cwd()) == project / "kvboost.toml"
    assert load_settings({}).model == "m/x"
    assert load_settings({}).store_dir == project / ".kvboost"


def test_the_nearest_project_file_is_taken(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    for folder in (project, inner):
        (folder / "kvboost.toml").touch()
    assert find_project_file(inner) == inner / "kvboost.toml"


def test_paths_in_a_file_start_at_that_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "kvboost.toml").write_text('store = "kv"\nmodel = "./models/tiny"')
    below = project / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    found = load_settings({})
    assert found.store_dir == project / "kv"
    assert Path(str(found.model)) == project / "models" / "tiny"


def test_the_store_is_in_the_user_data_directory_without_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_store_path(None) == Path("/data/kvboost/store")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("bits = 3", "bits", "3"),
        ("contexts = -1", "contexts", "-1"),
        ('repair = "hope"', "repair", "'hope'"),
        ("ratio = 1.5", "ratio", "1.5"),
        ("top_k = 0", "top_k", "0"),
        ('order = "best"', "order", "'best'"),
        ('exact = "perhaps"', "exact", "'perhaps'"),
    ],
)
def test_a_bad_value_in_a_file_names_file_key_and_value(project: Path, text: str, key: str, value: str) -> None:
    (project / "kvboost.toml").write_text(text)
    told = message({})
    assert told.startswith(f"{project / 'kvboost.toml'}: {key} ")
    assert told.endswith(f": {value}")


def test_an_unknown_key_names_file_and_key() -> None:
    path = write_user_config("topk = 3")
    assert message({}) == f"there is no such setting: {path}: topk"


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBOOST_BITS", "3")
    assert message({}) == "KVBOOST_BITS should be 4, 8 or 16: '3'"


def test_a_bad_flag_is_named_as_it_is_typed() -> None:
    assert message({"max_tokens": 0}) == "--max-tokens should be greater than or equal to 1: 0"


def test_a_bad_value_is_reported_even_where_it_is_overridden(project: Path) -> None:
    (project / "kvboost.toml").write_text("bits = 3")
    assert "kvboost.toml: bits" in message({"bits": 8})


def test_a_file_that_is_no_toml_is_named(project: Path) -> None:
    (project / "kvboost.toml").write_text("bits: 8")
    assert message({}).startswith(f"{project / 'kvboost.toml'} is not valid TOML")


def test_a_file_that_is_no_text_is_named(project: Path) -> None:
    (project / "kvboost.toml").write_bytes(b"\xff\xfe\x00")
    assert message({}).startswith(f"{project / 'kvboost.toml'} is not valid TOML")
