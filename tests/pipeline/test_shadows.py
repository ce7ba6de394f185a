"""Shadow models end to end on the demo: who sees what, what is stored and shared, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ulira import SPECS
from genrec_unlearn_bench.pipeline import shadows
from genrec_unlearn_bench.pipeline.ground import Ground, lay_ground
from genrec_unlearn_bench.pipeline.pipeline import Finished
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.shadow_ground import ShadowGround, forget_pairs, pair_codes, shadow_ground
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce.repeat import request_of
from tests.pipeline.conftest import TINY, Bench

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
def judged(bench: Bench) -> Finished:
    """``filter`` on the demo: it changes no weight, so that its shadows unlearn in no time."""
    return bench.run("filter", **WITH_SHADOWS)


def ulira(finished: Finished) -> dict[str, MetricValue]:
    names = {spec.name for spec in SPECS}
    return {value.metric: value for value in finished.record.metrics if value.metric in names}


def ground(bench: Bench, task: str) -> Ground:
    setting = settle(bench.request("original", task))
    return lay_ground(Workroom(setting, bench.store, Progress(), Shelf()))


def codes(of: Ground, examples: Examples) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate(
        [pair_codes(of, examples.users, examples.targets), pair_codes(of, examples.event_users, examples.events)]
    )


@pytest.mark.parametrize("task", ["demo-brand", "demo-interaction"])
def test_a_shadow_never_sees_what_it_is_not_given(bench: Bench, task: str) -> None:
    whole = ground(bench, task)
    pairs = forget_pairs(whole)
    out = pairs[::2]
    lean = shadow_ground(whole, out)
    assert isinstance(lean, ShadowGround)
    for part in (lean.dataset.train, lean.split.train.forget, lean.split.train.retain, lean.split.valid.retain):
        assert len(part)
        assert not np.isin(codes(lean, part), out).any()
        assert (part.ends > part.starts).all()
    assert np.array_equal(forget_pairs(lean), np.setdiff1d(pairs, out))
    assert len(lean.split.test.forget) == len(whole.split.test.forget)
    if lean.split.kind is ConceptKind.INTERACTION:
        assert not np.isin(pair_codes(lean, lean.split.pairs[:, 0], lean.split.pairs[:, 1]), out).any()
    # Nothing else goes than what was left out, and what is left without a history by that.
    lost = len(whole.dataset.train) - len(lean.dataset.train)
    assert np.isin(pair_codes(whole, whole.dataset.train.users, whole.dataset.train.targets), out).sum() <= lost
    assert lost < 2 * len(out)
    # Keys of all that is trained on it differ, and another half gives another key.
    assert lean.examples_identity != whole.examples_identity
    assert lean.identity != shadow_ground(whole, pairs[1::2]).identity


def test_values_and_record(bench: Bench, judged: Finished) -> None:
    found = ulira(judged)
    area = found["membership.auc.u-lira"]
    assert area.value is not None
    assert area.interval is not None
    assert area.n == 4 * min(shadows.EXAMPLES, len(forget_pairs(ground(bench, "demo-brand"))))
    # A model that is hardly trained remembers nobody.
    assert area.interval[0] < 0.6
    named = [stage.name for stage in judged.record.stages if stage.name.startswith("u-lira: ")]
    assert named == [f"u-lira: shadow {number}" for number in (1, 2, 3, 4)]
    assert "--shadows 4" in judged.record.command
    assert request_of(judged.record, results_dir=bench.results).shadows == 4


def test_shadows_are_stored_and_shared(bench: Bench, judged: Finished) -> None:
    again = bench.run("filter", **WITH_SHADOWS)
    assert bench.told.computed == []
    assert ulira(again) == ulira(judged)
    # The original's shadows are there already; only the confidences are new.
    original = bench.run("original", **WITH_SHADOWS)
    assert [name for name in bench.told.computed if "u-lira" in name] == ["u-lira of original"] * 4
    assert not [name for name in bench.told.computed if name in ("original", "unlearned")]
    # filter leaves the weights as they are, so that it is told as easily as no unlearning at all.
    assert {name: value.value for name, value in ulira(original).items()} == {
        name: value.value for name, value in ulira(judged).items()
    }
    popularity = bench.run("popularity", **WITH_SHADOWS)
    assert {value.note for value in ulira(popularity).values()} == {
        "the row 'popularity' unlearns nothing, so that no shadow models of it are trained"
    }
    assert not ulira(bench.run("filter", **{**WITH_SHADOWS, "shadows": 0}))


def test_too_little_or_too_large(bench: Bench, judged: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "LEAST_EXAMPLES", 10_000)
    found = ulira(bench.run("filter", **WITH_SHADOWS))
    assert all("too few to tell" in (value.note or "") for value in found.values())
    monkeypatch.setattr(shadows, "LEAST_EXAMPLES", 20)
    monkeypatch.setattr(shadows, "MOST_PARAMETERS", 1000)
    with pytest.raises(UsageError, match="million parameters"):
        bench.run("filter", **WITH_SHADOWS)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shadows": 5}, "come in pairs"),
        ({"shadows": 2}, "at least 4"),
        ({"suite": "core", "measure": (), "measure_set": {}}, "belong to the suite 'full'"),
        ({"requests": 2}, "leave out --shadows or --requests"),
        ({"backbone": "mor", "backbone_set": {"checkpoint": "Qwen/Qwen2.5-7B"}}, "the language model Qwen"),
    ],
)
def test_refused_before_any_work(bench_at: Callable[[str], Bench], changes: dict[str, Any], reason: str) -> None:
    bench = bench_at("refused")
    with pytest.raises(UsageError, match=reason):
        bench.run("filter", **{**WITH_SHADOWS, **changes})
    assert bench.told.lines == []
