"""Records run again from what they hold: to the bit here, whatever today's defaults, presets and choices are."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import ConfigError, DataMissing, ProtocolMismatch, UsageError
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.resolve import ConfigSource, resolve
from genrec_unlearn_bench.pipeline.results import RECORD, find_run
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.reproduce.repeat import Repetition, repeat_record, request_of
from genrec_unlearn_bench.store.manifest import KEY_FILE
from genrec_unlearn_bench.store.manifest import MANIFEST as STAGE_FILE
from genrec_unlearn_bench.store.store import SHARED_VARIABLE
from tests.pipeline.conftest import Bench, Told

OWN = '''"""Mine (unpublished): a copy whose weights shrink. Updates all parameters."""

from pydantic import Field

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class MineConfig(MethodConfig):
    """How much."""

    factor: float = Field(default=0.9)
    """What every weight is multiplied by."""


class Mine(UnlearningMethod[MineConfig]):
    """Shrinks."""

    name = "mine"
    Config = MineConfig

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        for parameter in model.module.parameters():
            parameter.data.mul_(self.config.factor)
        progress.log("shrink", 0, {"factor": self.config.factor})
        return model
'''


def again(record: RunRecord, bench: Bench, told: Told | None = None, **given: object) -> Repetition:
    return repeat_record(record, cache_dir=bench.root / "cache", progress=told or Told(), **given)  # type: ignore[arg-type]


def test_a_run_repeats_to_the_bit_and_its_row_is_recomputed(trained: Bench) -> None:
    record = trained.run("tracer").record
    told = Told()
    done = again(record, trained, told)
    assert done.matches
    assert done.bitwise
    assert set(done.counts) == {"identical"}
    assert done.now.key == record.key
    assert "unlearned" in told.computed
    assert {"original", "retrain"} <= set(done.reused)
    assert not {"unlearned", "evaluation"} & set(done.reused)


@pytest.mark.slow
def test_a_reference_row_is_recomputed_too(trained: Bench) -> None:
    told = Told()
    assert again(trained.run("retrain").record, trained, told).matches
    assert "retrain" in told.computed
    assert "sids" not in told.computed


@pytest.mark.parametrize("place", ["cache", "shared cache"])
def test_what_the_records_cache_holds_of_the_row_is_not_taken(
    trained: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The original passes for an unlearned model there. Whoever repeats the run with the same cache, or shares it, must
    not be given it again."""
    theirs = Bench(tmp_path / "theirs")
    shutil.copytree(trained.root / "cache", theirs.store.root)
    request = theirs.request("npo", method_set={"max_steps": 1})
    row = build_result(resolve(request)).inputs["row"]
    served = theirs.store.find("original", row.inputs["original"].key)
    assert served is not None

    def plant(folder: Path) -> Mapping[str, float]:
        shutil.copytree(served.path, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(KEY_FILE, STAGE_FILE))
        return {"seconds": 1.0, "peak_memory_mib": 1.0}

    theirs.store.make("unlearned", row.key, row.recipe, plant)
    record = run_cell(request, theirs.store, theirs.told).record
    assert "unlearned" not in theirs.told.computed
    cache = theirs.store.root
    if place == "shared cache":
        monkeypatch.setenv(SHARED_VARIABLE, str(cache))
        cache = tmp_path / "mine"
    told = Told()
    done = repeat_record(record, cache_dir=cache, progress=told)
    assert not done.matches
    assert done.first_difference.startswith("the stage 'unlearned' came out differently, from the same inputs")
    # What the row is built on is taken from there, whichever place that is.
    assert {"original", "retrain"} <= set(done.reused)
    assert set(told.computed) == {"unlearned", "evaluation", "evaluation of original", "evaluation of retrain"}


@pytest.mark.slow
def test_everything_is_made_anew_in_an_empty_cache(trained: Bench, tmp_path: Path) -> None:
    told = Told()
    done = repeat_record(trained.run("popularity").record, cache_dir=tmp_path, progress=told)
    assert done.matches
    assert done.reused == ()
    assert {"dataset", "original", "retrain"} <= set(told.computed)


@pytest.mark.slow
def test_the_record_decides_whatever_the_defaults_are(trained: Bench, tmp_path: Path) -> None:
    """A method whose default has changed since, from another place: the configuration is the record's."""
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    record = trained.run(f"{path}:Mine").record
    moved = tmp_path / "elsewhere" / "mine.py"
    moved.parent.mkdir()
    moved.write_text(OWN.replace("default=0.9", "default=0.5"))
    done = again(record, trained, method=str(moved))
    assert done.now.method_config == {"factor": 0.9}
    assert set(done.counts) == {"identical"}
    assert done.matches
    # Its code is another one, so the same bits are not owed; they come all the same.
    assert not done.bitwise
    assert [change.what for change in done.changes] == ["source of the method"]
    with pytest.raises(UsageError, match="is not installed here"):
        again(record, trained)
    with pytest.raises(UsageError, match="the record is of the method 'tracer'"):
        again(trained.run("tracer").record, trained, method=str(path))


@pytest.mark.slow
def test_a_tuned_record_keeps_its_configuration_and_its_label(trained: Bench) -> None:
    source = ConfigSource("tuned", {"max_steps": 2, "lr": 1e-3}, "a choice that is not here any more")
    record = run_cell(trained.request("npo"), trained.store, trained.told, source=source).record
    assert record.cell.ruleset == "tuned"
    done = again(record, trained)
    assert done.now.cell.ruleset == "tuned"
    assert done.now.method_config == record.method_config
    assert done.now.key == record.key
    assert done.matches


@pytest.mark.slow
def test_a_record_that_was_improved_does_not_hold(trained: Bench) -> None:
    record = trained.run("tracer").record
    better = tuple(
        value.model_copy(update={"value": 0.9}) if (value.metric, value.beam) == ("hr@10", 10) else value
        for value in record.metrics
    )
    done = again(record.model_copy(update={"metrics": better}), trained)
    assert not done.matches
    groups = ("forget", "retain", "retain-near")
    assert done.counts == {"identical": len(done.rows) - 5 - len(groups), "differs": len(groups)}
    assert {row.metric for row in done.rows if row.verdict == "differs"} == {"hr@10"}


def test_what_cannot_be_repeated_says_why(trained: Bench, tmp_path: Path) -> None:
    record = trained.run("tracer").record
    with pytest.raises(ProtocolMismatch, match="follows protocol 99"):
        again(record.model_copy(update={"protocol_version": 99}), trained)
    with pytest.raises(ConfigError, match="no_such_field"):
        again(record.model_copy(update={"method_config": {"no_such_field": 1}}), trained)
    encoder = record.model_copy(update={"encoder": "sentence-transformers:mine#0123"})
    with pytest.raises(UsageError, match="known by its content alone"):
        request_of(encoder, results_dir=tmp_path)
    cell = record.cell.model_copy(update={"task": "sports-2014-brand"})
    with pytest.raises(DataMissing):
        again(record.model_copy(update={"cell": cell}), trained, data_dir=tmp_path)


def test_runs_are_found_by_folder_and_by_record(trained: Bench, tmp_path: Path) -> None:
    folder = trained.run("tracer").folder
    assert find_run(folder) == folder
    assert find_run(folder / RECORD) == folder
    with pytest.raises(UsageError, match="there is no run"):
        find_run(tmp_path)
