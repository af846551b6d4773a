"""What stays behind in an export, and what an import refuses."""

from pathlib import Path

import pytest
from carrying import changes, contents, export_bundle, import_bundle, import_store, other_desk
from samples import Desk, make_text
from tiny_models import TinyModels

from kvboost_cli.bundle import BundleDamaged, BundleReader
from kvboost_cli.documents import Skipped
from kvboost_cli.pipelines.errors import ForeignKV


def test_a_damaged_document_is_left_out_and_told(stocked: Desk, tmp_path: Path) -> None:
    stocked.damage(stocked.entry(stocked.docs / "b.md").chunk_keys[1], layer=0)
    told = export_bundle(stocked, tmp_path / "rest.kvb")
    (skipped,) = [event for event in told if isinstance(event, Skipped)]
    assert (skipped.path, skipped.failed) == (str(stocked.docs / "b.md"), True)
    assert "missing or damaged: 1" in skipped.reason
    other = other_desk(stocked, "other")
    assert set(changes(import_bundle(other, tmp_path / "rest.kvb"))) == {"docs/a.md", "docs/sub/copy.md"}
    again = other_desk(stocked, "again")
    events = import_store(again, stocked.root / "store")
    assert [event.path for event in events if isinstance(event, Skipped)] == [str(stocked.docs / "b.md")]
    assert len(changes(events)) == 2


def test_damaged_exact_records_stay_behind(stocked: Desk, tmp_path: Path) -> None:
    stocked.damage(stocked.entry(stocked.docs / "b.md").position_keys[0], layer=1, database="positions")
    told = export_bundle(stocked, tmp_path / "all.kvb")
    assert [event.is_exact for event in told if not isinstance(event, Skipped)] == [True, False, True]
    other = other_desk(stocked, "other")
    import_bundle(other, tmp_path / "all.kvb")
    assert other.entry("docs/b.md").position_keys == ()


def test_two_folders_of_one_name_are_told_apart_or_left_out(desk: Desk, tmp_path: Path) -> None:
    for folder, seed in (("x/docs", 1), ("y/docs", 2)):
        path = desk.write(f"{folder}/a.md", make_text(seed))
        desk.index(path.parent)
    told = export_bundle(desk, tmp_path / "all.kvb")
    (skipped,) = [event for event in told if isinstance(event, Skipped)]
    assert "another document has the same name in the bundle, docs/a.md" in skipped.reason
    told = export_bundle(desk, tmp_path / "all.kvb", keep_paths=True)
    assert len(told) == 2
    assert not any(isinstance(event, Skipped) for event in told)


def test_a_name_that_could_deceive_a_terminal_stays_behind(desk: Desk, tmp_path: Path) -> None:
    desk.write("evil\x1b[2J.md", make_text(1))
    desk.write("good\udcff.md".encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"), make_text(2))
    desk.index()
    told = export_bundle(desk, tmp_path / "all.kvb")
    (skipped,) = [event for event in told if isinstance(event, Skipped)]
    assert "control characters" in skipped.reason
    other = other_desk(desk, "other")
    assert changes(import_bundle(other, tmp_path / "all.kvb")) == {"docs/good\udcff.md": "added"}


def new_folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_another_model_or_recipe_is_refused(stocked: Desk, tmp_path: Path, tiny_models: TinyModels) -> None:
    export_bundle(stocked, tmp_path / "all.kvb")
    desks = {
        "holds KV of the model tiny in float32": Desk(new_folder(tmp_path, "model"), tiny_models.path("qwen3")),
        "bits is 8 there and 4 here": Desk(new_folder(tmp_path, "bits"), stocked.model_dir, bits=4),
    }
    for fact, desk in desks.items():
        with pytest.raises(ForeignKV, match=fact):
            import_bundle(desk, tmp_path / "all.kvb")
        with pytest.raises(ForeignKV, match=fact):
            import_store(desk, stocked.root / "store")
        assert contents(desk.root / "store").documents == {}


def test_every_truncation_is_one_error(stocked: Desk, tmp_path: Path) -> None:
    export_bundle(stocked, tmp_path / "all.kvb", ["a.md"])
    data = (tmp_path / "all.kvb").read_bytes()
    for length in [8, 12, 20, 60, len(data) // 2, len(data) - 49, len(data) - 48, len(data) - 1]:
        (tmp_path / "cut.kvb").write_bytes(data[:length])
        with open(tmp_path / "cut.kvb", "rb") as file, pytest.raises(BundleDamaged, match=r"cut\.kvb is damaged: "):
            BundleReader(file, "cut.kvb")
