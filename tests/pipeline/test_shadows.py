"""Shadow models end to end on the demo: who sees what, what is stored and shared, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.data.holdout import Thinning
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ulira import SPECS
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, by_title, materialise
from genrec_unlearn_bench.pipeline.stages import shadows
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.reproduce.repeat import request_of
from tests.pipeline.conftest import TINY, Bench

pytestmark = pytest.mark.slow

WITH_SHADOWS: dict[str, Any] = {
    "suite": "full",
    "measure": ("quantisation",),
    "measure_set": {"quantisation.retain_examples": 2},
    "backbone_set": {**TINY, "training.max_steps": 4},
    "oracle_seeds": 0,
    "shadows": 4,
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("shadows"))


@pytest.fixture(scope="module")
def judged(bench: Bench) -> FinishedRun:
    """``filter`` on the demo: it changes no weight, so its shadows unlearn in no time."""
    return bench.run("filter", **WITH_SHADOWS)


def build_stages(resolved: ResolvedRequest) -> dict[str, Stage]:
    return by_title(build_result(resolved))


def ulira(finished: FinishedRun) -> dict[str, MetricValue]:
    names = {spec.name for spec in SPECS}
    return {value.metric: value for value in finished.record.metrics if value.metric in names}


def prepared_task(bench: Bench, task: str) -> PreparedTask:
    resolved = resolve(bench.request("original", task))
    inputs = Inputs(build_result(resolved), StageContext(bench.store, bench.told))
    return prepare_task(inputs, resolved, holdout=False)


def codes(of: PreparedTask, examples: Examples) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate(
        [
            shadows._codes(of, examples.users, examples.targets),
            shadows._codes(of, examples.event_users, examples.events),
        ]
    )


def forget_pairs(of: PreparedTask) -> np.ndarray:  # type: ignore[type-arg]
    forget = of.split.train.forget
    return np.unique(shadows._codes(of, forget.users, forget.targets))


@pytest.mark.parametrize("task", ["demo-brand", "demo-interaction"])
def test_a_shadow_never_sees_what_it_is_not_given(bench: Bench, task: str) -> None:
    whole = prepared_task(bench, task)
    pairs = forget_pairs(whole)
    out = pairs[::2]
    left_out = Thinning(out, shadows._width(whole))
    lean = replace(whole, dataset=left_out.dataset(whole.dataset), split=left_out.split(whole.split))
    for part in (lean.dataset.train, lean.split.train.forget, lean.split.train.retain, lean.split.valid.retain):
        assert len(part)
        assert not np.isin(codes(lean, part), out).any()
        assert (part.ends > part.starts).all()
    assert np.array_equal(forget_pairs(lean), np.setdiff1d(pairs, out))
    assert len(lean.split.test.forget) == len(whole.split.test.forget)
    if lean.split.kind is ConceptKind.INTERACTION:
        assert not np.isin(shadows._codes(lean, lean.split.pairs[:, 0], lean.split.pairs[:, 1]), out).any()
    # Nothing else goes than what was left out, and what is left without a history by that.
    lost = len(whole.dataset.train) - len(lean.dataset.train)
    assert np.isin(shadows._codes(whole, whole.dataset.train.users, whole.dataset.train.targets), out).sum() <= lost
    assert lost < 2 * len(out)


def test_every_shadow_has_keys_of_its_own(bench: Bench) -> None:
    stages = build_stages(resolve(bench.request("filter", **WITH_SHADOWS)))
    for name in ("shadow", "unlearned shadow", "u-lira: shadow"):
        assert len({stages[f"{name} {number}"].key for number in (1, 2, 3, 4)}) == 4
    assert stages["shadow 1"].key != stages["original"].key
    assert stages["unlearned shadow 1"].key != stages["unlearned"].key
    more = build_stages(resolve(bench.request("filter", **{**WITH_SHADOWS, "shadows": 6})))
    assert more["shadow 1"].key != stages["shadow 1"].key, "among six shadows another half is the first one's"


def test_values_and_record(bench: Bench, judged: FinishedRun) -> None:
    found = ulira(judged)
    area = found["membership.auc.u-lira"]
    assert area.value is not None
    assert area.interval is not None
    assert area.n == 4 * min(shadows.EXAMPLES, len(forget_pairs(prepared_task(bench, "demo-brand"))))
    # A model that is hardly trained remembers nobody.
    assert area.interval[0] < 0.6
    named = [stage.name for stage in judged.record.stages if stage.name.startswith("u-lira: ")]
    assert named == [f"u-lira: shadow {number}" for number in (1, 2, 3, 4)]
    assert "--shadows 4" in judged.record.command
    assert request_of(judged.record, results_dir=bench.results).shadows == 4


def test_shadows_are_stored_and_shared(bench: Bench, judged: FinishedRun, tmp_path: Path) -> None:
    again = bench.run("filter", **WITH_SHADOWS, results_dir=tmp_path)
    assert not again.cached
    assert bench.told.computed == []
    assert ulira(again) == ulira(judged)
    original = bench.run("original", **WITH_SHADOWS)
    assert [name for name in bench.told.computed if "shadow" in name] == [
        f"u-lira: shadow {number}" for number in (1, 2, 3, 4)
    ], "the original's shadows are there already; only the confidences are new"
    assert not {"original", "unlearned"} & set(bench.told.computed)
    # filter leaves the weights as they are, so it is recognised as easily as no unlearning at all.
    assert {name: value.value for name, value in ulira(original).items()} == {
        name: value.value for name, value in ulira(judged).items()
    }
    popularity = bench.run("popularity", **WITH_SHADOWS)
    assert {value.note for value in ulira(popularity).values()} == {
        "the row 'popularity' unlearns nothing, so that no shadow models of it are trained"
    }
    assert not ulira(bench.run("filter", **{**WITH_SHADOWS, "shadows": 0}))


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("LEAST_EXAMPLES", 10_000, "forget train interactions are too few for shadow models"),
        ("MOST_PARAMETERS", 1000, "million parameters"),
    ],
)
def test_too_little_or_too_large(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, reason: str
) -> None:
    monkeypatch.setattr(shadows, limit, value)
    resolved = resolve(bench.request("filter", **{**WITH_SHADOWS, "backbone_set": {**TINY, "training.max_steps": 3}}))
    with pytest.raises(UsageError, match=reason):
        materialise(build_stages(resolved)["shadow 1"], StageContext(bench.store, bench.told))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shadows": 5}, "come in pairs"),
        ({"shadows": 2}, "at least 4"),
        ({"suite": "core", "measure": (), "measure_set": {}}, "belong to the suite 'full'"),
        ({"requests": 2}, "--requests divides"),
    ],
)
def test_refused_before_any_work(bench_at: Callable[[str], Bench], changes: dict[str, Any], reason: str) -> None:
    bench = bench_at("refused")
    with pytest.raises(UsageError, match=reason):
        bench.run("filter", **{**WITH_SHADOWS, **changes})
    assert bench.told.lines == []
