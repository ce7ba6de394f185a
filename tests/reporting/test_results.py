"""Reading records: all of them, in one order, and every fault named at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.files import find_files
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.reporting.measure import TOTAL_SHARE, TUNING_SECONDS
from genrec_unlearn_bench.reporting.results import OWN, load_results, result_of
from tests.reporting.boards import make_records, write_records
from tests.reporting.planting import FORGET, measure, planted_record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(make_records(tasks=("industrial-brand",), backbones=("tiger",), seeds=(0, 1)), tmp_path / "r")
    return tmp_path / "r"


def test_every_record_is_read_once_and_in_the_order_of_paths(folder: Path) -> None:
    paths = find_files(folder, RECORD)
    found = load_results([folder])
    assert len(found.results) == len(paths) == 2 * 14
    assert [result.folder for result in found.results] == [path.parent for path in paths]
    assert [path.relative_to(folder).as_posix() for path in paths] == sorted(
        path.relative_to(folder).as_posix() for path in paths
    )
    assert {result.place for result in found.results} == {path.parent.relative_to(folder).as_posix() for path in paths}
    assert all(result.source is OWN for result in found.results)


def test_drafts_are_no_results(folder: Path) -> None:
    first = find_files(folder, RECORD)[0].parent
    first.rename(first.with_name(f".draft-{first.name}"))
    assert len(load_results([folder]).results) == 2 * 14 - 1


def test_a_records_own_gaps_are_not_taken_over(tmp_path: Path) -> None:
    record = planted_record("tracer", 0, {"forget:hr@10": 0.25, "forget:gap.hr@10": 0.2})
    write_records([record], tmp_path / "r")
    (result,) = load_results([tmp_path / "r"]).results
    assert result.values == {FORGET: 0.25}


def test_what_was_not_measured_is_none_and_not_zero(tmp_path: Path) -> None:
    write_records([planted_record("tracer", 0, {"forget:hr@10": None, "retain:hr@10": 0.0})], tmp_path / "r")
    (result,) = load_results([tmp_path / "r"]).results
    assert result.values == {FORGET: None, measure("retain:hr@10"): 0.0}


@pytest.mark.parametrize(
    ("ruleset", "trials", "seconds", "retraining", "costs"),
    [
        ("fixed", 0, 0.0, 100.0, (0.0, 10.0)),
        ("tuned", 6, 40.0, 100.0, (40.0, 50.0)),
        ("tuned", 6, 40.0, None, (40.0, None)),
        # Trials without their seconds, and a tuned row that counts none: nobody knows how long the search took.
        ("tuned", 6, 0.0, 100.0, (None, None)),
        ("tuned", 0, 0.0, 100.0, (None, None)),
    ],
)
def test_the_total_cost_is_unlearning_and_tuning(
    ruleset: str,
    trials: int,
    seconds: float,
    retraining: float | None,
    costs: tuple[float | None, float | None],
    tmp_path: Path,
) -> None:
    record = planted_record("tracer", 0, {"cost.unlearn-seconds": 10.0}, ruleset=ruleset)
    spent = {"tuning_trials": trials, "tuning_seconds": seconds, "retrain_seconds": retraining}
    result = result_of(
        record.model_copy(update={"cost": record.cost.model_copy(update=spent)}), folder=tmp_path, root=tmp_path
    )
    assert (result.values[TUNING_SECONDS], result.values[TOTAL_SHARE]) == costs


def test_configurations_are_compared_by_content_and_not_by_order(tmp_path: Path) -> None:
    one = planted_record("tracer", 0, {"forget:hr@10": 0.1}, method_config={"a": 1, "b": [2, 3]})
    two = planted_record("tracer", 1, {"forget:hr@10": 0.1}, method_config={"b": [2, 3], "a": 1})
    write_records([one, two], tmp_path / "r")
    first, second = load_results([tmp_path / "r"]).results
    assert first.method_config == second.method_config == '{"a":1,"b":[2,3]}'


def test_all_broken_records_are_named_at_once(folder: Path) -> None:
    broken = [find_files(folder, RECORD)[place] for place in (0, 3)]
    broken[0].write_text("{", encoding="utf-8")
    broken[1].write_text("{}", encoding="utf-8")
    with pytest.raises(CorruptArtefact) as fault:
        load_results([folder])
    assert "2 of 28" in fault.value.what
    assert all(str(path) in fault.value.what for path in broken)
    found = load_results([folder], skip_broken=True)
    assert len(found.results) == 26
    assert len(found.faults) == 2


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="no folder"):
        load_results([tmp_path / "absent"])
    with pytest.raises(DataMissing, match="no result"):
        load_results([tmp_path])


def test_a_number_that_json_does_not_have_is_refused(folder: Path) -> None:
    path = find_files(folder, RECORD)[0]
    path.write_text(path.read_text(encoding="utf-8").replace('"protocol_version": 1', '"protocol_version": NaN'))
    with pytest.raises(CorruptArtefact):
        load_results([folder])
