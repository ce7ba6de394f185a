"""Packaged datasets and imported ones, found by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE, datasets, find_dataset, packaged_datasets
from genrec_unlearn_bench.errors import ConfigError, UnknownName

SPEC = """name: {name}
title: T
format: letter
split: leave-one-out
files: [{{role: sequences, names: [x.inter.json]}}]
"""


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def put(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder / "dataset.yaml").write_text(SPEC.format(name=name))


def test_packaged() -> None:
    protocol = {"demo", "industrial", "industrial-2018", "sports", "toys", "sports-2014", "toys-2014", "steam"}
    assert protocol <= set(packaged_datasets())
    for name, spec in packaged_datasets().items():
        assert spec.name == name
        assert spec.terms, "terms of use are said"
        assert spec.citations or name == "demo"
        for file in spec.files:
            assert file.url or spec.where, "there is a way to get the file"


def test_imported_are_found_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "env"))
    put(tmp_path / "env" / "some-folder", "one")
    put(tmp_path / "given", "two")
    put(tmp_path / "above" / "three", "three")
    put(tmp_path / "home" / "genrec-unlearn-bench" / "data" / "four", "four")
    assert find_dataset("one").aliases == ("some-folder",)
    assert find_dataset("two", tmp_path / "given").name == "two"
    assert find_dataset("three", tmp_path / "above").aliases == ()
    assert find_dataset("four").name == "four"
    assert {"one", "four"} <= set(datasets())


def test_packaged_names_cannot_be_taken(tmp_path: Path) -> None:
    put(tmp_path / "x", "steam")
    assert find_dataset("steam", tmp_path / "x").format == "folder"


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean steam"):
        find_dataset("steem")


def test_broken_specification(tmp_path: Path) -> None:
    put(tmp_path / "x", "no name!")
    assert find_dataset("demo", tmp_path / "x").name == "demo"
    with pytest.raises(ConfigError):
        find_dataset("mine", tmp_path / "x")


def test_tasks_datasets_and_their_digests_need_no_numbers() -> None:
    code = (
        "import sys\n"
        "from genrec_unlearn_bench.data.catalogue import find_dataset\n"
        "from genrec_unlearn_bench.data.locate import source_digests\n"
        "from genrec_unlearn_bench.data.tasks import find_task\n"
        "assert find_task('demo-brand').kind == 'brand'\n"
        "assert source_digests(find_dataset('demo'), None) == ()\n"
        "print(sorted({'torch', 'pandas', 'numpy', 'pyarrow', 'scipy', 'ssl'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
