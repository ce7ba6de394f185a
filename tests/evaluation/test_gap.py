"""The gap to the oracle by hand, and the cost."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.evaluation.catalogue import compared, family
from genrec_unlearn_bench.evaluation.gap import cost_values, gap_to_oracle
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricValue


def value(number: float | None, *, metric: str = "hr@10", group: Group = Group.FORGET, beam: int = 10) -> MetricValue:
    return MetricValue(
        metric=metric,
        group=group,
        value=number,
        beam=beam,
        n=5 if number is not None else 0,
        note=None if number else "-",
    )


def test_by_hand() -> None:
    gap, gapz = gap_to_oracle([value(0.30)], [[value(0.10)], [value(0.14)], [value(0.12)]])
    assert (gap.metric, gapz.metric) == ("gap.hr@10", "gapz.hr@10")
    assert (gap.group, gap.beam, gap.n) == (Group.FORGET, 10, 3)
    assert gap.value == pytest.approx(0.18)
    assert gap.sd == pytest.approx(0.02)
    assert gapz.value == pytest.approx(9.0)


def test_groups_and_beams_are_not_mixed() -> None:
    oracle = [value(0.1), value(0.5, group=Group.RETAIN), value(0.2, beam=50)]
    run = [value(0.5, group=Group.RETAIN), value(0.3, beam=50), value(0.15)]
    gaps = [v.value for v in gap_to_oracle(run, [oracle]) if v.metric.startswith("gap.")]
    assert gaps == pytest.approx([0.0, 0.1, 0.05])


@pytest.mark.parametrize(
    ("oracles", "word"),
    [([[0.1]], "two oracle seeds"), ([[0.1], [0.1], [0.1]], "agree"), ([[0.1], [None]], "two oracle seeds")],
)
def test_no_spread_no_units(oracles: list[list[float | None]], word: str) -> None:
    gap, gapz = gap_to_oracle([value(0.3)], [[value(x) for x in row] for row in oracles])
    assert gap.value == pytest.approx(0.2)
    assert gapz.value is None
    assert gapz.note is not None
    assert word in gapz.note


def test_what_was_not_measured() -> None:
    gap, gapz = gap_to_oracle([value(None)], [[value(0.1)], [value(0.2)]])
    assert gap.value is None
    assert gapz.value is None
    gap, gapz = gap_to_oracle([value(0.1)], [[value(0.1, beam=50)]])
    assert gap.value is None
    assert gap.note == "not measured on the oracle"
    assert gap_to_oracle([value(0.1)], []) == ()


def test_only_user_metrics_are_compared() -> None:
    cost = MetricValue(metric="cost.steps", group=Group.ALL, value=3.0)
    assert gap_to_oracle([cost], [[cost]]) == ()
    assert compared() >= {"hr@10", "similarity.first", "concept-rate@10", "influence.js-excess"}
    assert not any(name.startswith(("overlap", "cost", "gap")) for name in compared())


def test_declared_and_valid() -> None:
    assert len(family("gap.", "gapz.")) == 2 * len(compared())
    assert all(better is Better.ORACLE for spec in family("gap.", "gapz.") for better in spec.better.values())
    gaps = gap_to_oracle([value(0.0), value(1.0, group=Group.RETAIN)], [[value(1.0), value(0.0, group=Group.RETAIN)]])
    assert check_invariants(gaps) == []


def test_what_the_full_suite_finds_in_a_model_is_held_against_the_oracle() -> None:
    names = compared()
    assert names >= {
        "probing.auroc.prompt",
        "relearning.area.mixed",
        "relearning.original-sids.hr@10.benign",
        "membership.auc.min-k++",
        "forget-quality.truth-ratio",
        "quantisation.hr@10.int4",
    }
    # These are distances to the oracle, or belong to another question.
    assert not {name for name in names if "recovery" in name or "privleak" in name or ".ks." in name or "tow" in name}
    auc = MetricValue(metric="membership.auc.loss", group=Group.FORGET, value=0.7)
    (gap, _) = gap_to_oracle([auc], [[auc.model_copy(update={"value": 0.55})], [auc.model_copy(update={"value": 0.5})]])
    assert gap.value == pytest.approx(0.175)


def test_cost() -> None:
    values = cost_values(
        unlearn_seconds=12.5, share_of_retraining=None, peak_memory_mib=900.0, steps=40, tuning_trials=3
    )
    assert {v.metric: v.value for v in values} == {
        "cost.unlearn-seconds": 12.5,
        "cost.share-of-retraining": None,
        "cost.peak-memory": 900.0,
        "cost.steps": 40.0,
        "cost.tuning-trials": 3.0,
    }
    assert [v.metric for v in values] == [spec.name for spec in family("cost.")][:5]
    assert check_invariants(values) == []
    negative = cost_values(unlearn_seconds=-1.0, share_of_retraining=0.1, peak_memory_mib=1.0, steps=1)
    assert len(check_invariants(negative)) == 1
