from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from genrec_unlearn_bench.data.catalogue import packaged_datasets, read_yaml
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.data.tasks import (
    DEFAULT_CONCEPTS,
    AttributeConcept,
    BrandConcept,
    PriceConcept,
    TaskSpec,
    find_task,
    tasks,
)
from genrec_unlearn_bench.errors import ConfigError, UnknownName

ALL = ("brand", "price", "item", "interaction")
ENTANGLED = ("demo", "industrial", "sports-2014", "steam", "toys-2014")
UNPRICED = ("brand", "item", "interaction")
ATTRIBUTES = ("ml-1m-genre", "steam-publisher", "steam-tag", "toys-2014-category")
SHIPPED = {
    "demo": ALL,
    "industrial": UNPRICED,
    "industrial-2018": ALL,
    "ml-1m": ("item",),
    "sports": ALL,
    "sports-2014": UNPRICED,
    "steam": ALL,
    "toys": ALL,
    "toys-2014": UNPRICED,
}


def test_the_shipped_tasks_are_those_of_the_protocol() -> None:
    found = tasks()
    plain = {f"{dataset}-{kind}" for dataset, kinds in SHIPPED.items() for kind in kinds}
    assert set(found) == plain | {f"{dataset}-entangled" for dataset in ENTANGLED} | set(ATTRIBUTES)
    assert list(found) == sorted(found)
    for name, task in found.items():
        entangled = getattr(task.concept, "draw", "") == "entangled"
        assert name == task.name
        assert (name in ATTRIBUTES) == (task.concept.kind == "attribute")
        if name not in ATTRIBUTES:
            assert name == f"{task.dataset}-{'entangled' if entangled else task.concept.kind}"
        assert task.version == 1
        assert task.dataset in packaged_datasets()
        assert task.title
        assert task.description.endswith(".")
        assert task.kind is ConceptKind(task.concept.kind)


def test_shipped_tasks_use_the_protocols_parameters() -> None:
    for task in tasks().values():
        entangled = task.name.endswith("-entangled")
        default = BrandConcept(draw="entangled") if entangled else DEFAULT_CONCEPTS[task.concept.kind]
        if isinstance(task.concept, AttributeConcept):
            asked = ("field", "path", "split")
            assert task.concept == AttributeConcept(**{name: getattr(task.concept, name) for name in asked})
        elif isinstance(task.concept, PriceConcept):
            assert (task.concept.bands, task.concept.band) == (5, 5)
        else:
            assert task.concept == default
    assert set(DEFAULT_CONCEPTS) == {str(kind) for kind in ConceptKind}
    assert DEFAULT_CONCEPTS["brand"] == BrandConcept(
        share_of_brands=0.05, target_share=0.10, tolerance=0.01, max_draws=10_000
    )


def test_reading_all_tasks_is_quick_and_needs_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, time\n"
        "from genrec_unlearn_bench.data.tasks import tasks\n"
        "start = time.process_time(); tasks(); spent = time.process_time() - start\n"
        "print(spent, 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert float(shown[0]) < 0.05
    assert shown[1:] == ["False", "False"]


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean demo-brand"):
        find_task("demo-brnd")
    with pytest.raises(UnknownName):
        find_task("no-such-dataset-brand")
    with pytest.raises(UnknownName):
        find_task("demo-colour")


def test_an_imported_dataset_has_a_task_of_every_kind(tmp_path: Path) -> None:
    folder = tmp_path / "my-shop"
    folder.mkdir()
    (folder / "dataset.yaml").write_text(
        "name: my-shop\ntitle: My shop\nformat: folder\nsplit: leave-one-out\n"
        "files:\n- {role: items, names: [items.jsonl]}\n- {role: sequences, names: [sequences.tsv]}\n"
    )
    for kind in ALL:
        for data_dir in (tmp_path, folder):
            task = find_task(f"my-shop-{kind}", data_dir)
            assert (task.dataset, task.concept) == ("my-shop", DEFAULT_CONCEPTS[kind])
    assert find_task("my-shop-category", tmp_path).concept == AttributeConcept()
    assert find_task("my-shop-entangled", tmp_path).concept == BrandConcept(draw="entangled")
    with pytest.raises(UnknownName):
        find_task("my-shop-brand")


def test_a_task_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndataset: demo\nconcept: {kind: brand, brands: [Norvik, 'Pine & Hollow']}\n")
    task = find_task(str(path))
    assert task == read_yaml(TaskSpec, path)
    assert task.concept == BrandConcept(brands=("Norvik", "Pine & Hollow"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name: a\ndataset: demo\nconcept: {kind: brand, target_shar: 0.1}\n", "target_share"),
        ("name: a\ndataset: demo\nconcept: {kind: colour}\n", "colour"),
        ("name: a\ndataset: demo\nconcept: {kind: brand, brands: []}\n", "brands"),
        ("name: a\ndataset: demo\nconcept: {kind: price, bands: 1}\n", "bands"),
        ("name: Ä\ndataset: demo\nconcept: {kind: item}\n", "name"),
        ("- a\n- b\n", "mapping"),
        ("", "mapping"),
        ("name: [unclosed\n", "line"),
        ("name: !!python/object/apply:os.system ['true']\n", "YAML"),
        ("1: 2\n", "dataset"),
    ],
)
def test_faulty_files_are_explained(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        find_task(str(path))
    assert said in str(caught.value)
    assert "task.yaml" in str(caught.value)


def test_all_faults_of_a_file_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("name: a\nversion: 0\nseed: -1\nconcept: {kind: item, strata: 0}\n")
    with pytest.raises(ConfigError) as caught:
        find_task(str(path))
    assert len(caught.value.faults) == 4


def test_missing_folder_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        find_task(str(tmp_path / "absent.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        find_task(str(tmp_path / "folder.yaml"))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(ConfigError, match="UTF-8"):
        find_task(str(tmp_path / "binary.yaml"))


def test_specs_are_frozen_and_survive_json() -> None:
    for task in tasks().values():
        assert TaskSpec.model_validate_json(task.model_dump_json()) == task
    with pytest.raises(ValidationError):
        tasks()["demo-brand"].seed = 3  # type: ignore[misc]
