"""Tuning on the demo with a method that costs nothing: what is tried, reused, chosen, recorded and never read."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.errors import BenchError, DataFault, ProtocolMismatch, UsageError
from genrec_unlearn_bench.pipeline import tune as tuning
from genrec_unlearn_bench.pipeline.results import read_record
from genrec_unlearn_bench.pipeline.stages import evaluate, unlearn
from genrec_unlearn_bench.pipeline.tune import Tuned, tune
from genrec_unlearn_bench.tuning.choice import write_choice
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.pipeline.conftest import Bench

pytestmark = pytest.mark.slow

SEEDS = (9000, 9001)

METHOD = '''"""Shrinks the weights."""

import torch

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.search import Search


class ShrinkConfig(MethodConfig):
    """One field that matters."""

    search = Search(factor=FACTORS)

    factor: float = 1.0
    """What all weights are multiplied by; below 0 it reports a loss that is not finite, 0 makes weights infinite."""


class Shrink(UnlearningMethod[ShrinkConfig]):
    """Shrinks."""

    name = "shrink"
    Config = ShrinkConfig

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        factor = self.config.factor if self.config.factor else float("inf")
        with torch.no_grad():
            for weight in model.module.parameters():
                weight.mul_(factor)
        progress.log("shrink", 0, {"loss": float("nan") if factor < 0 else 1.0})
        return model
'''


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("tuning"))


def shrink(folder: Path, *factors: float) -> str:
    """The method with these values to search."""
    path = folder / "shrink.py"
    path.write_text(METHOD.replace("FACTORS", repr(list(factors))))
    return f"{path}:Shrink"


def tuned(bench: Bench, method: str, *, seeds: tuple[int, ...] = SEEDS[:1], trials: int = 12, **changes: Any) -> Tuned:
    bench.told.lines.clear()
    return tune(bench.request(method, **changes), bench.store, bench.told, seeds=seeds, limit=trials)


def test_every_trial_is_cached_and_an_interrupted_tuning_goes_on(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = shrink(tmp_path, 1.0, 0.5, 0.01)
    whole, calls = tuning.validate_stage, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(tuning, "validate_stage", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tuned(bench, method, seeds=SEEDS)
    monkeypatch.undo()
    choice = tuned(bench, method, seeds=SEEDS).choice
    computed = bench.told.computed
    assert "original" not in computed
    assert computed.count("validation of original") == 0, "both originals were measured before"
    assert computed.count("unlearned") == 4
    assert computed.count("validation of unlearned") == 5
    again = tuned(bench, method, seeds=SEEDS).choice
    assert bench.told.computed == []
    assert again.model_copy(update={"created": choice.created}) == choice
    assert sorted(one.config["factor"] for one in choice.trials) == [0.01, 0.5, 1.0]
    assert choice.trials[0].config["factor"] == 1.0, "the default comes first"
    assert choice.trials[0].forget_hr == choice.original.forget_hr, "a factor of 1 changes nothing"
    assert choice.trials[0].retain_ndcg == choice.original.retain_ndcg
    assert all(len(one.seeds) == 2 for one in choice.trials)
    assert choice.seconds == pytest.approx(sum(one.seconds for one in choice.trials))


def test_no_oracle_is_trained_and_nothing_of_the_test_part_is_read(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = evaluate.prepare_task

    class NoTest:
        """Stands where the test part was, and cannot be read."""

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"the test part was read: {name}")

    def blinded(*arguments: Any, **options: Any) -> Any:
        prepared = real(*arguments, **options)
        split = replace(prepared.split, test=NoTest())
        return replace(prepared, split=split, dataset=replace(prepared.dataset, test=NoTest()))

    for module in (evaluate, unlearn):
        monkeypatch.setattr(module, "prepare_task", blinded)
    tuned(bench, shrink(tmp_path, 1.0, 0.25))
    assert any(line.startswith("validation of unlearned") for line in bench.told.lines)
    assert not [line for line in bench.told.lines if line.startswith(("retrain", "evaluation"))]
    recipes = [recipe for _, recipe in bench.store.recipes("validated")]
    assert recipes
    for recipe in recipes:
        assert recipe["config"] == {"part": "valid", "beam": 10, "rows": 5000, "device": "cpu"}
    parts = [one.name for one in fields(ForgetRequest) if one.type in ("Groups", Groups)]
    assert parts == ["train", "valid"], "what a method gets"


def test_what_diverges_is_shown_and_never_chosen(bench: Bench, tmp_path: Path) -> None:
    choice = tuned(bench, shrink(tmp_path, 1.0, -1.0, 0.0), seeds=SEEDS).choice
    assert [one.diverged for one in choice.trials] == [False, True, True], "the default is sound"
    assert [one.forget_hr for one in choice.trials[1:]] == [None, None]
    assert [len(one.seeds) for one in choice.trials] == [2, 1, 1], "what diverged once is not tried again"
    assert (choice.chosen, choice.feasible) == (0, True)


def test_where_all_diverge_there_is_nothing_to_choose(bench: Bench, tmp_path: Path) -> None:
    method = shrink(tmp_path, -1.0, 0.0)
    with pytest.raises(BenchError, match=r"every configuration of 'shrink' diverged \(1 tried\)"):
        tuned(bench, method, method_set={"factor": -1.0})


def test_a_method_without_a_search_space_has_one_trial(bench: Bench) -> None:
    choice = tuned(bench, "filter").choice
    assert (len(choice.trials), choice.space, choice.searched, choice.chosen) == (1, 1, (), 0)
    assert choice.trials[0].forget_hr == 0.0


def test_a_drawn_space_says_how_large_it_is(bench: Bench, tmp_path: Path) -> None:
    found = tuned(bench, shrink(tmp_path, 1.0, 0.5, 0.25, 0.01), trials=2)
    assert (len(found.choice.trials), found.choice.space) == (2, 4)
    differs = found.choice.config["factor"] != 1.0
    assert dict(found.changes) == ({"factor": found.choice.config["factor"]} if differs else {})


def test_a_tuned_run_shares_its_stage_and_holds_what_tuning_cost(bench: Bench, tmp_path: Path) -> None:
    method = shrink(tmp_path, 1.0, 0.5)
    found = tuned(bench, method)
    write_choice(tmp_path, found.choice)
    plain = bench.run(method, oracle_seeds=0, method_set=dict(found.changes))
    done = bench.run(method, oracle_seeds=0, ruleset="tuned", tuned_dir=tmp_path)
    assert "unlearned" not in bench.told.computed, "the same configuration is the same stage"
    record = read_record(done.folder)
    assert record.cell.ruleset == "tuned"
    assert record.method_config == found.choice.config
    assert record.cost.tuning_trials == 2
    assert record.cost.tuning_seconds == pytest.approx(found.choice.seconds)
    assert {v.value for v in record.metrics if v.metric == "cost.tuning-trials"} == {2.0}
    assert "--ruleset tuned" in record.command
    assert done.folder != plain.folder, "two rulesets are two results"
    assert read_record(plain.folder).cell.ruleset == "default"
    reference = bench.run("original", oracle_seeds=0, ruleset="tuned", tuned_dir=tmp_path)
    assert read_record(reference.folder).cell.ruleset == "default"
    with pytest.raises(UsageError, match="the seed 9000 was used to tune"):
        bench.run(method, oracle_seeds=0, ruleset="tuned", tuned_dir=tmp_path, seed=9000)
    write_choice(tmp_path, found.choice.model_copy(update={"task_digest": "another"}))
    with pytest.raises(ProtocolMismatch, match="resolved to something else"):
        bench.run(method, oracle_seeds=0, ruleset="tuned", tuned_dir=tmp_path, results_dir=tmp_path / "results")
    shrink(tmp_path, 1.0, 0.5, 0.3)
    with pytest.raises(UsageError, match="changed after it was tuned"):
        bench.run(method, oracle_seeds=0, ruleset="tuned", tuned_dir=tmp_path)


def test_reference_rows_are_not_tuned(bench: Bench) -> None:
    with pytest.raises(UsageError, match="reference row"):
        tuned(bench, "original")


def test_an_empty_validation_part_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tuning.recommender_stages

    def emptied(*arguments: Any) -> Any:
        data, *models = real(*arguments)
        task = data["task"]

        def load(inputs: Any, folder: Path) -> Any:
            split = task.load(inputs, folder)
            none = split.valid.forget.subset(split.valid.forget.targets < 0)
            return replace(split, valid=Groups(none, split.valid.retain))

        return {**data, "task": replace(task, load=load)}, *models

    monkeypatch.setattr(tuning, "recommender_stages", emptied)
    with pytest.raises(DataFault, match="the forget side of the validation part is empty"):
        tuned(bench, "filter")
