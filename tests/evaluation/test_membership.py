"""Membership inference finds what a planted model memorised, and nothing in one that never saw it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, References
from genrec_unlearn_bench.evaluation.membership import Membership, MembershipConfig, area
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.progress import Progress
from tests.evaluation.memorised import subject, world

pytestmark = pytest.mark.slow

Parts = dict[str, Measured]


def measured(model: T5Recommender, **config: int) -> Parts:
    return {"": Membership().measure(subject(model), "", MembershipConfig(**config), Progress())}


@pytest.fixture(scope="module")
def original() -> Parts:
    return measured(world().original)


@pytest.fixture(scope="module")
def oracles() -> list[Parts]:
    return [measured(model) for model in world().oracles]


def compared(own: Parts, original: Parts, oracles: list[Parts]) -> dict[tuple[str, Group], MetricValue]:
    values = Membership().compare(own, References(original, oracles))
    found = {(value.metric, value.group): value for value in values}
    assert set(found) == {(spec.name, group) for spec in Membership.specs for group in spec.better}
    assert len(found) == len(values)
    return found


def test_an_overfitted_model_gives_its_members_away(original: Parts, oracles: list[Parts]) -> None:
    found = compared(original, original, oracles)
    # The reference is as overfitted as the model, on other examples: what it adds here is noise.
    for score, least in (("loss", 0.8), ("min-k", 0.8), ("min-k++", 0.75), ("reference", 0.6)):
        area_told = found[f"membership.auc.{score}", Group.FORGET].interval
        assert area_told is not None
        assert area_told[0] > least
        leak = found[f"membership.privleak.{score}", Group.FORGET].interval
        assert leak is not None
        assert leak[1] < -20
    told = found["membership.tpr.loss", Group.FORGET].value
    assert told is not None
    assert told > 0.1


def test_a_model_that_never_saw_them_cannot_tell(original: Parts, oracles: list[Parts]) -> None:
    for own in oracles:
        found = compared(own, original, oracles)
        for score in ("loss", "min-k", "min-k++"):
            interval = found[f"membership.auc.{score}", Group.FORGET].interval
            assert interval is not None
            assert interval[0] <= 0.5 <= interval[1]
        kept = found["membership.auc.loss", Group.RETAIN].value
        assert kept is not None
        assert kept > 0.9


def test_the_interval_holds_a_half_whoever_is_called_a_member(oracles: list[Parts]) -> None:
    """Among examples that a model never saw, for 300 draws of which of them count as members."""
    samples = oracles[0][""].samples
    pool = np.concatenate([samples[f"forget.own.loss.{side}"] for side in ("members", "holdout")]).astype(np.float64)
    generator = np.random.default_rng(0)
    held = []
    for _ in range(300):
        drawn = generator.permutation(pool)
        found = area(drawn[:110], drawn[110:])
        held.append(found.low <= 0.5 <= found.high)
    assert 0.91 <= np.mean(held) <= 0.985


def test_the_curve_says_the_same_as_the_metrics(original: Parts, oracles: list[Parts]) -> None:
    curve = original[""].curve
    assert curve is not None
    assert list(curve.columns) == [
        "score",
        "space",
        "group",
        "auc",
        "auc_low",
        "auc_high",
        "tpr",
        "tpr_low",
        "tpr_high",
        "n_members",
        "n_holdout",
    ]
    row = curve[(curve.score == "min-k") & (curve.space == "own") & (curve.group == "forget")].iloc[0]
    value = compared(original, original, oracles)["membership.auc.min-k", Group.FORGET]
    assert value.value == row.auc
    assert value.interval == (row.auc_low, row.auc_high)
    assert value.n == row.n_members + row.n_holdout == 220


def test_an_oracle_is_no_reference_for_itself(original: Parts, oracles: list[Parts]) -> None:
    alone = compared(oracles[0], original, oracles[:1])
    for name in ("privleak.loss", "privleak.reference", "auc.reference", "tpr.reference"):
        value = alone[f"membership.{name}", Group.FORGET]
        assert value.value is None
        assert "other than the run itself" in (value.note or "")
    beside = compared(oracles[0], original, oracles)
    assert beside["membership.auc.reference", Group.FORGET].value is not None
    assert beside["membership.privleak.loss", Group.FORGET].value != 0
    assert "calibrate its own" in (beside["membership.privleak.reference", Group.FORGET].note or "")


def test_without_oracles_there_are_still_areas(original: Parts) -> None:
    found = compared(original, original, [])
    assert found["membership.auc.loss", Group.FORGET].value is not None
    assert found["membership.auc.reference", Group.FORGET].value is None


def test_moved_items_are_still_told_in_the_original_ids(original: Parts, oracles: list[Parts]) -> None:
    """A model that only relabelled the concept's items: nothing to tell in its own IDs, all of it in the old ones."""
    model = world().original
    concept = np.flatnonzero(world().split.items)
    fresh = model.sids.codes[np.roll(concept, 1)].copy()
    moved = measured(model.with_sids(model.sids.reassigned(concept, fresh)))
    found = compared(moved, original, oracles)
    new, old = (found[f"membership.auc.{name}", Group.FORGET].value for name in ("loss", "original-sids.loss"))
    assert new is not None
    assert old is not None
    assert new < 0.65
    assert old == pytest.approx(compared(original, original, oracles)["membership.auc.loss", Group.FORGET].value)


def test_ids_of_another_tokenizer_have_no_original_space(original: Parts, oracles: list[Parts]) -> None:
    model = world().original
    other = replace(model.sids, codes=np.roll(model.sids.codes, 8, axis=0))
    found = compared(measured(model.with_sids(other)), original, oracles)
    value = found["membership.auc.original-sids.loss", Group.FORGET]
    assert value.value is None
    assert "reassignment" in (value.note or "")


def test_few_non_members_have_no_rate_and_fewer_nothing() -> None:
    few = measured(world().original, examples=60)
    value = compared(few, few, [])["membership.tpr.loss", Group.FORGET]
    assert value.value is None
    assert "60 non-members" in (value.note or "")
    with pytest.raises(NotMeasurable, match=r"110 .* 200 of each"):
        measured(world().original, least=200)


def test_a_retain_side_without_holdout_is_said_so(original: Parts, oracles: list[Parts]) -> None:
    planted = world()
    nobody = replace(planted.holdout, retain=planted.holdout.retain.subset(np.zeros(110, dtype=np.bool_)))
    found = {"": Membership().measure(subject(planted.original, holdout=nobody), "", MembershipConfig(), Progress())}
    value = compared(found, original, oracles)["membership.auc.loss", Group.RETAIN]
    assert value.value is None
    assert "too few retain" in (value.note or "")


def test_for_interactions_one_holdout_serves_both_sides() -> None:
    planted = world()
    nobody = replace(planted.holdout, retain=planted.holdout.retain.subset(np.zeros(110, dtype=np.bool_)))
    train = Groups(planted.split.train.forget, planted.split.train.forget)
    single = replace(planted.split, kind=ConceptKind.INTERACTION, items=np.zeros(64, dtype=np.bool_), train=train)
    samples = (
        Membership()
        .measure(subject(planted.original, split=single, holdout=nobody), "", MembershipConfig(), Progress())
        .samples
    )
    assert np.array_equal(samples["retain.own.loss.holdout"], samples["forget.own.loss.holdout"])


def test_reasons_are_passed_on(original: Parts, oracles: list[Parts]) -> None:
    broken = {"": Measured(reason="there is nothing to see")}
    assert all(value.value is None for value in compared(broken, original, oracles).values())
    value = compared(original, original, [broken])["membership.privleak.loss", Group.FORGET]
    assert "nothing to see" in (value.note or "")
