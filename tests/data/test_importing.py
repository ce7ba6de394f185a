"""Bringing one's own catalogue: all or nothing, and known by name afterwards."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE, find_dataset, imported_folders
from genrec_unlearn_bench.data.prepare import import_folder, prepare
from genrec_unlearn_bench.errors import ConfigError, DataFault, DataMissing, StorageError, UnknownName, UsageError
from genrec_unlearn_bench.listing import records_of
from genrec_unlearn_bench.progress import Progress
from tests.data.shops import write_shop


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def test_import_and_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_shop(tmp_path / "root" / "odd name")
    spec, dataset = import_folder(folder, "my-shop", Progress(), k_core=2, title="My shop")
    assert (spec.split, spec.k_core) == ("global-time", 2)
    found = find_dataset("my-shop", folder)
    assert prepare(found, folder, Progress()).manifest == dataset.manifest
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "root"))
    assert prepare(find_dataset("my-shop"), None, Progress()).manifest == dataset.manifest


def test_an_import_is_known_by_name_everywhere(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "elsewhere" / "my-shop")
    _, dataset = import_folder(folder, "my-shop", Progress())
    assert prepare(find_dataset("my-shop"), None, Progress()).manifest == dataset.manifest
    listed = [task["name"] for task in records_of("tasks")]
    assert "my-shop-brand" in listed
    assert "my-shop" in [one["name"] for one in records_of("datasets")]
    # Imported again from where it lies now; the old place is forgotten.
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(DataMissing, match="does not hold it any more"):
        find_dataset("my-shop")
    import_folder(moved, "my-shop", Progress())
    assert prepare(find_dataset("my-shop"), None, Progress()).manifest == dataset.manifest


def test_importing_again_keeps_what_no_argument_names(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "shop")
    first, dataset = import_folder(folder, "shop", Progress(), k_core=2, split="leave-one-out")
    path = folder / "dataset.yaml"
    path.write_text(path.read_text().replace("title: shop", "title: By hand") + "terms: ours\n")
    again, same = import_folder(folder.rename(tmp_path / "moved"), "shop", Progress())
    assert again == first.model_copy(update={"title": "By hand", "terms": "ours"})
    assert same.manifest.digest == dataset.manifest.digest
    changed, _ = import_folder(tmp_path / "moved", "shop", Progress(), k_core=0, title="New")
    assert (changed.k_core, changed.title, changed.split, changed.terms) == (0, "New", "leave-one-out", "ours")


def test_a_name_that_moves_to_another_folder_is_said(tmp_path: Path) -> None:
    import_folder(write_shop(tmp_path / "one"), "shop", Progress())
    told: list[str] = []
    progress = Progress()
    progress.info = told.append  # type: ignore[method-assign]
    import_folder(write_shop(tmp_path / "two"), "shop", progress)
    assert told[0] == f"shop was {tmp_path / 'one'} until now"


def test_a_folder_has_one_name(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "shop")
    import_folder(folder, "one", Progress())
    with pytest.raises(UsageError, match="the folder is the dataset 'one' already"):
        import_folder(folder, "two", Progress())
    assert find_dataset("one").name == "one", "and stays it"
    (folder / "dataset.yaml").unlink()
    import_folder(folder, "two", Progress())
    assert imported_folders() == {"two": folder}


def test_a_folder_of_others_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_shop(tmp_path / "shared")
    import_folder(folder, "one", Progress(), k_core=2)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "my-home"))
    with pytest.raises(UsageError, match="the folder is the dataset 'one' already"):
        import_folder(folder, "two", Progress())
    assert import_folder(folder, "one", Progress())[0].k_core == 2


def test_a_failed_import_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, occupied = write_shop(tmp_path / "shop"), tmp_path / "occupied"
    occupied.touch()
    monkeypatch.setenv(DATA_VARIABLE, str(occupied / "below"))
    with pytest.raises(StorageError):
        import_folder(folder, "shop", Progress())
    assert not (folder / "dataset.yaml").exists()
    monkeypatch.delenv(DATA_VARIABLE)
    import_folder(folder, "shop", Progress(), k_core=2)
    before = (folder / "dataset.yaml").read_bytes()
    monkeypatch.setenv(DATA_VARIABLE, str(occupied / "below"))
    with pytest.raises(StorageError):
        import_folder(folder, "shop", Progress(), k_core=3)
    assert (folder / "dataset.yaml").read_bytes() == before


def test_a_broken_dataset_stops_no_other(tmp_path: Path) -> None:
    import_folder(write_shop(tmp_path / "good"), "good", Progress())
    folder = write_shop(tmp_path / "bad")
    import_folder(folder, "bad", Progress())
    with (folder / "dataset.yaml").open("a") as stream:
        stream.write("foo: 1\n")
    with pytest.warns(UserWarning, match="bad/dataset.yaml"):
        listed = [one["name"] for one in records_of("datasets")]
    assert "good" in listed
    assert "bad" not in listed
    assert find_dataset("good").name == "good"
    with pytest.raises(ConfigError, match="foo: unknown key"):
        find_dataset("bad")
    with pytest.raises(UnknownName, match="did you mean good"):
        find_dataset("goof")


def test_a_damaged_list_of_imports_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / "imported.json").write_text('{"shop": ')
    with pytest.raises(ConfigError, match="Invalid JSON") as caught:
        imported_folders()
    assert caught.value.where == str(tmp_path / "imported.json")


def test_a_name_leaves_room_for_those_of_tasks(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "shop")
    with pytest.raises(ConfigError, match="at most 40 characters"):
        import_folder(folder, "x" * 41, Progress())
    import_folder(folder, "x" * 40, Progress())
    assert f"{'x' * 40}-interaction" in [task["name"] for task in records_of("tasks")]


def test_oddities_are_told(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "s")
    with (folder / "items.jsonl").open("a") as stream:
        stream.write('{"item_id": "odd", "price": NaN, "brand": ["Acme", "Bolt"], "colour": "red"}\n')
    lines = (folder / "interactions.tsv").read_text().splitlines()
    user, item, _ = lines[1].split("\t")
    (folder / "interactions.tsv").write_text("\n".join([*lines, f"{user}\t{item}\t-5"]) + "\n")
    manifest = import_folder(folder, "my-shop", Progress())[1].manifest
    assert manifest.dropped["price is NaN (no price)"] == 1
    assert manifest.dropped["brand is a list of several (joined to one name)"] == 1
    assert manifest.dropped["field 'colour' of an item is not read"] == 1
    assert any("dated before 1970" in note for note in manifest.notes)


def test_split_follows_the_data(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "s", sequences=True)
    assert import_folder(folder, "my-shop", Progress())[0].split == "leave-one-out"
    with pytest.raises(ConfigError, match="without dates, sequences"):
        import_folder(folder, "my-shop", Progress(), split="global-time")
    dated = write_shop(tmp_path / "d")
    assert import_folder(dated, "my-shop", Progress(), split="leave-one-out")[0].split == "leave-one-out"


def test_nothing_is_written_for_broken_data(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "s")
    with (folder / "items.jsonl").open("a") as stream:
        stream.write('{"item_id": "i1"}\n{"item_id"\n')
    with pytest.raises(DataFault, match="2 faults"):
        import_folder(folder, "my-shop", Progress())
    assert sorted(path.name for path in folder.iterdir()) == ["interactions.tsv", "items.jsonl"]


def test_again_replaces(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "s")
    import_folder(folder, "my-shop", Progress())
    import_folder(folder, "my-shop", Progress(), k_core=3)
    assert find_dataset("my-shop", folder).k_core == 3


def test_folder_that_has_the_name_of_a_packaged_dataset(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "steam")
    _, dataset = import_folder(folder, "my-shop", Progress())
    assert prepare(find_dataset("my-shop", folder), folder, Progress()).manifest == dataset.manifest
    assert find_dataset("my-shop", tmp_path).aliases == ("steam",)


def test_wrong_calls(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "s")
    with pytest.raises(UsageError, match="'steam' belongs to a dataset of this package"):
        import_folder(folder, "steam", Progress())
    with pytest.raises(ConfigError, match="name: use lower-case letters, digits and hyphens"):
        import_folder(folder, "My Shop", Progress())
    with pytest.raises(DataMissing, match="no such folder"):
        import_folder(tmp_path / "nowhere", "my-shop", Progress())
    with pytest.raises(DataFault, match="no dataset in the format letter"):
        import_folder(folder, "my-shop", Progress(), format_name="letter")


def test_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_shop(tmp_path / "s")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(StorageError, match="read-only"):
        import_folder(folder, "my-shop", Progress())
    assert not (folder / "dataset.yaml").exists()
