import re
from dataclasses import fields
from pathlib import Path

import pytest

from kvboost_cli import settings
from kvboost_cli.setting_facts import SETTING_FACTS
from kvboost_cli.settings import SettingsError, default_store_path, find_project_file, load_settings, parse_bytes
from kvboost_cli.settings_view import TracedSetting, settings_template, trace_settings, unknown_variables


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


def write_user_config(text: str, *, exist_ok: bool = False) -> Path:
    path = settings.user_config_file()
    path.parent.mkdir(parents=True, exist_ok=exist_ok)
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


def test_an_unknown_key_names_file_and_key_and_what_may_have_been_meant() -> None:
    path = write_user_config("topk = 3")
    assert message({}) == f"there is no such setting (did you mean top_k?): {path}: topk"
    path.write_text("[kvboost]\nbits = 8")
    assert message({}) == f"there is no such setting: {path}: kvboost"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('contexts = "2"', "contexts should be a whole number from 0 to 64: '2'"),
        ("contexts = true", "contexts should be a whole number from 0 to 64: true"),
        ("contexts = 2.5", "contexts should be a whole number from 0 to 64: 2.5"),
        ("bits = true", "bits should be 4, 8 or 16: true"),
        ('bits = "8"', "bits should be 4, 8 or 16: '8'"),
        ("exact = 1", "exact should be true or false: 1"),
        ('exact = "true"', "exact should be true or false: 'true'"),
        ('temperature = "0.5"', "temperature should be a number from 0 to 100: '0.5'"),
        ("temperature = nan", "temperature should be a number from 0 to 100: nan"),
        ("ratio = true", "ratio should be a number over 0, up to 1: true"),
        ("system = 2024-01-01", "system should be text: datetime.date(2024, 1, 1)"),
        ("store = 3", "store should be a directory: 3"),
        ("model = false", "model should be a directory, a catalog name or a hub id: false"),
        ("top_k = [1]", "top_k should be a whole number, 1 or more: [1]"),
        ('report = "short"', "report should be full, line or none: 'short'"),
        ("device = 0", "device should be auto, cuda, mps or cpu: 0"),
    ],
)
def test_a_file_has_to_say_the_type_that_it_means(project: Path, text: str, told: str) -> None:
    (project / "kvboost.toml").write_text(text)
    assert message({}) == f"{project / 'kvboost.toml'}: {told}"


def test_a_whole_number_will_do_where_a_fraction_may_stand(project: Path) -> None:
    (project / "kvboost.toml").write_text("temperature = 1\nratio = 1")
    assert (load_settings({}).temperature, load_settings({}).ratio) == (1.0, 1.0)


def test_every_setting_has_its_facts_and_its_example_is_one() -> None:
    assert list(SETTING_FACTS) == [field.name for field in fields(settings.Settings)]
    for key, fact in SETTING_FACTS.items():
        write_user_config(f"{key} = {fact.example}", exist_ok=True)
        assert getattr(load_settings({}), key) is not None


def test_the_documentation_has_the_same_values_and_settings() -> None:
    text = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (?:`--|none)[^|]*\| ([^|]*) \|", text, re.MULTILINE)
    assert [key for key, _values in rows] == list(SETTING_FACTS)
    for key, values in rows:
        told = set(re.findall(r"[a-z0-9]+", SETTING_FACTS[key].allowed))
        assert set(re.findall(r"`([^`]+)`", values)) <= told | {"true", "false"}


def test_a_file_to_begin_with_sets_nothing_and_every_line_of_it_may_be_used(project: Path) -> None:
    (project / "kvboost.toml").write_text(settings_template())
    assert load_settings({}) == settings.Settings()
    told = re.sub(r"^# (?=\w+ = )", "", settings_template(), flags=re.MULTILINE)
    (project / "kvboost.toml").write_text(told)
    places = {one.place for one in trace_settings({})}
    assert places == {str(project / "kvboost.toml")}


def test_each_setting_is_traced_to_what_set_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = write_user_config("top_k = 1\nmax_tokens = 1\nbits = 16\ncontexts = 1")
    (project / "kvboost.toml").write_text("top_k = 2\nmax_tokens = 2\nbits = 8")
    monkeypatch.setenv("KVBOOST_TOP_K", "3")
    monkeypatch.setenv("KVBOOST_MAX_TOKENS", "3")
    traced = {one.key: one for one in trace_settings({"top_k": 4, "model": None})}
    assert traced["top_k"] == TracedSetting("top_k", 4, "flag", "--top-k")
    assert traced["max_tokens"] == TracedSetting("max_tokens", 3, "environment", "KVBOOST_MAX_TOKENS")
    assert traced["bits"] == TracedSetting("bits", 8, "project", str(project / "kvboost.toml"))
    assert traced["contexts"] == TracedSetting("contexts", 1, "user", str(user))
    assert traced["model"] == TracedSetting("model", None, "default", None)


def test_variables_that_set_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KVBOOST_TOPK", "KVBOOST_DEBUG", "KVBOOST_BITS", "KVBOOST_SOMETHING_ELSE"):
        monkeypatch.setenv(name, "1")
    assert unknown_variables() == {"KVBOOST_SOMETHING_ELSE": None, "KVBOOST_TOPK": "KVBOOST_TOP_K"}


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("1", 1), ("500MB", 500_000_000), ("2 GiB", 2 * 2**30), ("1.5 kb", 1500), ("2g", 2 * 10**9)]
)
def test_a_size_is_understood(text: str, num_bytes: int) -> None:
    assert parse_bytes("--budget", text) == num_bytes


@pytest.mark.parametrize("text", ["", "much", "0", "-1GB", "1 parsec", "0.1"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--budget should be a size such as 500MB or 2GiB: "):
        parse_bytes("--budget", text)


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVBOOST_BITS", "3")
    assert message({}) == "KVBOOST_BITS should be 4, 8 or 16: '3'"


def test_a_bad_flag_is_named_as_it_is_typed() -> None:
    assert message({"max_tokens": 0}) == "--max-tokens should be a whole number, 1 or more: 0"


def test_a_bad_value_is_reported_even_where_it_is_overridden(project: Path) -> None:
    (project / "kvboost.toml").write_text("bits = 3")
    assert "kvboost.toml: bits" in message({"bits": 8})


def test_a_file_that_is_no_toml_is_named(project: Path) -> None:
    (project / "kvboost.toml").write_text("bits: 8")
    assert message({}).startswith(f"{project / 'kvboost.toml'} is not valid TOML")


def test_a_file_that_is_no_text_is_named(project: Path) -> None:
    (project / "kvboost.toml").write_bytes(b"\xff\xfe\x00")
    assert message({}).startswith(f"{project / 'kvboost.toml'} is not valid TOML")
