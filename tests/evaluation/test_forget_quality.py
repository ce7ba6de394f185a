"""Forget quality is high between models that differ in their seed alone, and low for one that remembers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from genrec_unlearn_bench import testing as planted
from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.evaluation.forget_quality import (
    FORGET_RATIOS,
    HITS,
    MORE_FORGET_RATIOS,
    RETAIN_RATIOS,
    ForgetQuality,
    ForgetQualityConfig,
    log_truth_ratios,
    p_value,
)
from genrec_unlearn_bench.evaluation.likelihood_scoring import score, wrong_items
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, References
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.progress import Progress
from tests.evaluation.memorised import subject, world
from tests.evaluation.planted import examples

Parts = dict[str, Measured]


def measured(model: T5Recommender, **config: int) -> Parts:
    return {"": ForgetQuality().measure(subject(model), "", ForgetQualityConfig(**config), Progress())}


@pytest.fixture(scope="module")
def original() -> Parts:
    return measured(world().original)


@pytest.fixture(scope="module")
def oracles() -> list[Parts]:
    return [measured(model) for model in world().oracles]


def compared(own: Parts, original: Parts, oracles: list[Parts]) -> dict[tuple[str, Group], MetricValue]:
    values = ForgetQuality().compare(own, References(original, oracles))
    found = {(value.metric.removeprefix("forget-quality."), value.group): value for value in values}
    assert {(f"forget-quality.{name}", group) for name, group in found} == {
        (spec.name, group) for spec in ForgetQuality.specs for group in spec.better
    }
    assert len(found) == len(values)
    return found


def value(found: dict[tuple[str, Group], MetricValue], name: str, group: Group = Group.FORGET) -> float:
    number = found[name, group].value
    assert number is not None, found[name, group].note
    return number


@pytest.mark.slow
def test_what_is_remembered_shows(original: Parts, oracles: list[Parts]) -> None:
    found = compared(original, original, oracles)
    assert value(found, "ks.p") < 1e-12
    assert value(found, "ks.split-p") < 1e-6
    assert value(found, "ks.d") > 0.9
    assert value(found, "ks.d") > value(found, "ceiling.d") + 0.3
    assert "110 examples" in (found["ks.p", Group.FORGET].note or "")
    assert found["ks.p", Group.FORGET].n == 110
    assert found["ks.split-p", Group.FORGET].n == 55
    interval = found["ks.d", Group.FORGET].interval
    assert interval is not None
    assert interval[0] > 0.75


@pytest.mark.slow
def test_a_second_retrained_model_is_the_ceiling(original: Parts, oracles: list[Parts]) -> None:
    for own in oracles:
        found = compared(own, original, oracles)
        assert value(found, "ks.p") == value(found, "ceiling.p")
        assert value(found, "ks.d") == value(found, "ceiling.d")
        assert value(found, "tow", Group.ALL) > value(compared(original, original, oracles), "tow", Group.ALL)


def test_right_answers_are_certain_where_they_were_learned(original: Parts, oracles: list[Parts]) -> None:
    before, after = (compared(parts, original, oracles) for parts in (original, oracles[0]))
    assert value(before, "truth-ratio", Group.RETAIN) > 0.3
    assert value(after, "truth-ratio", Group.RETAIN) > 0.3
    assert before["truth-ratio", Group.FORGET].interval is not None
    # The original holds the forgotten items likelier than their neighbours, the oracle less likely.
    assert np.median(original[""].samples[FORGET_RATIOS]) < 0 < np.median(oracles[0][""].samples[FORGET_RATIOS])


def test_accuracies_are_those_of_the_served_model(original: Parts, oracles: list[Parts]) -> None:
    hits = {name: [parts[""].samples[name].mean() for parts in (original, oracles[0])] for name in HITS}
    # Everything retained was memorised by both, the test examples by neither.
    assert min(hits[HITS[1]]) > 0.9
    found = compared(original, original, oracles)
    gaps = [abs(before - after) for before, after in hits.values()]
    assert value(found, "average-gap", Group.ALL) == pytest.approx(np.mean(gaps))
    shares = [min(1.0, gap / before) for gap, (before, _) in zip(gaps, hits.values(), strict=True)]
    assert value(found, "tow", Group.ALL) == pytest.approx(np.prod(1 - np.array(shares)))
    for name in ("tow", "average-gap"):
        interval = found[name, Group.ALL].interval
        assert interval is not None
        assert interval[0] <= value(found, name, Group.ALL) <= interval[1]


def test_examples_are_capped_and_the_same_for_all(original: Parts, oracles: list[Parts]) -> None:
    few = measured(world().original, examples=40, decoded=10)[""].samples
    assert len(few[FORGET_RATIOS]) == len(few[MORE_FORGET_RATIOS]) == len(few[RETAIN_RATIOS]) == 40
    assert [len(few[name]) for name in HITS] == [10, 10, 10]
    assert np.array_equal(few[FORGET_RATIOS], original[""].samples[FORGET_RATIOS][:40])
    assert np.array_equal(few[MORE_FORGET_RATIOS], original[""].samples[FORGET_RATIOS][40:80])
    split = compared({"": replace(original[""], samples=few)}, original, oracles[:0])
    assert split["ks.split-p", Group.FORGET].value is None
    assert ForgetQuality().config("small").examples == ForgetQuality().config("smoke").examples == 400


def test_distributions_are_published_as_quantiles(original: Parts, oracles: list[Parts]) -> None:
    curve = original[""].curve
    assert curve is not None
    for group, name in (("forget", "ratios.forget"), ("retain", "ratios.retain")):
        part = curve[curve["group"] == group]
        assert part["quantile"].tolist() == pytest.approx(np.arange(1, 50) / 50)
        assert part["truth_ratio"].is_monotonic_increasing
        middle = float(part["truth_ratio"].iloc[24])
        assert np.log(middle) == pytest.approx(float(np.median(original[""].samples[name])))


def test_what_needs_oracles_says_so(original: Parts, oracles: list[Parts]) -> None:
    alone = compared(oracles[0], original, oracles[:1])
    for name, group in (("ks.p", Group.FORGET), ("ks.d", Group.FORGET), ("tow", Group.ALL)):
        assert "other than the run itself" in (alone[name, group].note or "")
    assert "there is one" in (alone["ceiling.p", Group.FORGET].note or "")
    assert value(alone, "truth-ratio") > 0


def test_reasons_are_passed_on(original: Parts, oracles: list[Parts]) -> None:
    broken = {"": Measured(reason="there is nothing to see")}
    assert all(found.value is None for found in compared(broken, original, oracles).values())
    assert "nothing to see" in (compared(original, original, [broken])["ks.p", Group.FORGET].note or "")
    assert "nothing to see" in (compared(oracles[0], broken, oracles)["tow", Group.ALL].note or "")


def test_nothing_is_in_proportion_to_an_original_without_hits(original: Parts, oracles: list[Parts]) -> None:
    samples = {**original[""].samples, HITS[0]: np.zeros(60)}
    found = compared(oracles[0], {"": replace(original[""], samples=samples)}, oracles)
    assert "no hit" in (found["tow", Group.ALL].note or "")
    assert found["average-gap", Group.ALL].value is not None


def test_a_set_without_examples_has_no_accuracy(original: Parts, oracles: list[Parts]) -> None:
    samples = {**original[""].samples, HITS[0]: np.zeros(0)}
    found = compared({"": replace(original[""], samples=samples)}, original, oracles)
    assert "hits.forget-test" in (found["tow", Group.ALL].note or "")


def test_too_few_forgotten_interactions_are_not_measured() -> None:
    with pytest.raises(NotMeasurable, match="110 forget train interactions, and 111"):
        measured(world().original, least=111)


def test_an_item_without_any_other_has_no_wrong_answer() -> None:
    one = subject(world().original)
    readings = {name: dict(arrays) for name, arrays in one.pass_arrays.items()}
    for array in ("wrong", "wrong_lengths"):
        name = f"forget-train.{array}"
        readings["likelihoods"][name] = np.zeros_like(readings["likelihoods"][name])
    with pytest.raises(NotMeasurable, match="wrong answer"):
        ForgetQuality().measure(replace(one, pass_arrays=readings), "", ForgetQualityConfig(), Progress())


def chained(count: int, generator: np.random.Generator) -> Examples:
    """The next of the last item's group, with a chance of an eighth of the group's number, or else any item: seeds
    come to much the same likelihoods, as there is enough to learn them from."""
    first, last = generator.integers(64, size=(2, count))
    following = last // 8 * 8 + (last + 1) % 8
    targets = np.where(generator.random(count) < last // 8 / 8, following, generator.integers(64, size=count))
    return examples(np.stack([first, last], axis=1).tolist(), targets.tolist())


@pytest.mark.slow
def test_p_is_uniform_between_two_seeds() -> None:
    """Models that differ in their training seed alone, on 300 small draws of examples that neither has seen.

    Larger draws tell one seed from another in the end (on 120 examples a side, every third draw or so): two trainings
    do not give one distribution. That is what the ceiling is for.
    """
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    train, valid = chained(2500, generator), chained(300, generator)
    shape = T5Shape(d_model=32, d_kv=8, d_ff=64, layers=1, heads=4, dropout=0.0, history_limit=2)
    config = TrainingConfig(lr=5e-3, batch_size=100, epochs=8, warmup_steps=10, evaluations=2, valid_rows=300)
    unseen = chained(3000, generator)
    wrong = wrong_items(planted.features(planted.sids()), planted.sids(), unseen.targets, np.zeros(64, dtype=np.bool_))
    ratios = []
    for seed in (1, 2):
        model = T5Recommender.fresh(shape, planted.sids(), seed=seed)
        train_recommender(model, config, train=train, valid=valid, seed=seed, device="cpu", progress=Progress())
        ratios.append(
            log_truth_ratios(score(model, unseen.histories(), unseen.targets, wrong, label="", progress=Progress()))
        )
    split, same = [], []
    for _ in range(300):
        rows = generator.permutation(3000)[:60]
        split.append(p_value(ratios[0][rows[:30]], ratios[1][rows[30:]]))
        same.append(p_value(ratios[0][rows[:30]], ratios[1][rows[:30]]))
    for level in (0.05, 0.1, 0.3, 0.5):
        assert np.mean(np.array(split) <= level) == pytest.approx(level, abs=0.1)
        assert np.mean(np.array(same) <= level) <= level
    assert p_value(ratios[0][:400], ratios[1][:400] + 0.3) < 1e-6
