"""Tables of measurements beyond the core: published with the result that names them, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.results import read_record, record_text
from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.submit import submit
from genrec_unlearn_bench.submissions.verification import verify
from tests.submissions.forging import renewed
from tests.submissions.honest import request

TABLE = "model,score,auc\nrun,loss,0.5\n"


@pytest.fixture
def measured(home: Path, tmp_path: Path) -> Path:
    """A copy of the raw results, one of which has a table of measurements."""
    root = Path(shutil.copytree(home, tmp_path / "home", ignore=shutil.ignore_patterns("submissions")))
    folder = next(iter(sorted(root.glob("results/demo-brand/tiger/mine/*"))))
    place = folder / "measurements" / "membership.csv"
    place.parent.mkdir()
    place.write_text(TABLE, encoding="utf-8")
    record = read_record(folder).model_copy(update={"tables": {"membership": file_digest(place)}})
    (folder / "result.json").write_text(record_text(record), encoding="utf-8")
    return root


def faults(folder: Path, leaderboard: Path) -> str:
    return str(verify(load(folder, leaderboard)).model_dump())


def test_they_are_published_and_held(measured: Path) -> None:
    done = submit(**request(measured))
    assert done.verification.passed
    place = next(iter(done.folder.rglob("membership.csv")))
    assert place.read_text(encoding="utf-8") == TABLE
    place.write_text(TABLE.replace("0.5", "0.4"), encoding="utf-8")
    renewed(done.folder)
    assert "not the one that its result.json names" in faults(done.folder, measured / "leaderboard")
    place.rename(place.with_name("probing.csv"))
    renewed(done.folder)
    found = faults(done.folder, measured / "leaderboard")
    assert "membership.csv" in found
    assert "probing.csv" in found


def test_other_files_have_no_place_beside_them(measured: Path) -> None:
    folder = submit(**request(measured)).folder
    place = next(iter(folder.rglob("membership.csv")))
    shutil.copyfile(place, place.with_name("users.parquet"))
    renewed(folder)
    assert "no place here" in faults(folder, measured / "leaderboard")


def test_a_changed_table_is_seen_at_home(measured: Path) -> None:
    place = next(iter(measured.rglob("membership.csv")))
    place.write_text("model\n", encoding="utf-8")
    with pytest.raises(CorruptArtefact, match="measurement's table"):
        read_record(place.parents[1])
