"""Recovery where rounding undoes the unlearning, none where it does not; and every reason for no number."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, References, Subject
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.quantisation import SPECS, Quantisation, paired_ratio
from genrec_unlearn_bench.progress import Progress
from tests.evaluation import quantised_world as world
from tests.small import causal

MEASUREMENT = Quantisation()
CONFIG = MEASUREMENT.config("smoke")


@pytest.fixture(scope="module")
def original() -> Recommender:
    return world.on_the_grid()


@pytest.fixture(scope="module")
def of_original(original: Recommender) -> Mapping[str, Measured]:
    return parts(world.subject(original))


def parts(subject: Subject) -> dict[str, Measured]:
    return {part: MEASUREMENT.measure(subject, part, CONFIG, Progress()) for part in MEASUREMENT.parts(subject)}


def compared(
    own: Mapping[str, Measured], original: Mapping[str, Measured], *, row: str = "npo"
) -> dict[tuple[str, Group], MetricValue]:
    values = MEASUREMENT.compare(own, References(original=original, oracles=[], row=row))
    assert check_invariants(values) == []
    assert {(value.metric, value.group) for value in values} == {(s.name, group) for s in SPECS for group in s.better}
    nf4 = {value.note for value in values if value.metric.endswith(".nf4")}
    assert nf4 == {"this way of quantising is there for decoder-only models alone"} or "" in own
    return {(value.metric, value.group): value for value in values}


@pytest.mark.slow
def test_rounding_undoes_small_moves(original: Recommender, of_original: Mapping[str, Measured]) -> None:
    forget = world.subject(original).split.test.forget
    own = parts(world.subject(world.moved(original, 0.4, forget)))
    # All bits: forgotten. 4 bits: the original again, to the list.
    assert (own["full"].samples["forget"] == 0).mean() > 0.5
    assert np.array_equal(own["int4"].samples["forget"], of_original["int4"].samples["forget"])
    values = compared(own, of_original)
    recovery = values["quantisation.recovery.int4", Group.FORGET]
    assert (recovery.value, recovery.interval) == (1.0, (1.0, 1.0))
    # A step of 8 bits is a sixteenth as wide: the same moves stay.
    fine = values["quantisation.recovery.int8", Group.FORGET]
    assert fine.value is not None
    assert abs(fine.value) < 0.1
    hits = values["quantisation.hr@10.int4", Group.FORGET]
    peer = stats.binomtest(round((hits.value or 0) * (hits.n or 0)), hits.n or 0).proportion_ci(method="exact")
    assert hits.interval == pytest.approx((peer.low, peer.high), abs=1e-12)
    assert values["quantisation.hr@10.int4", Group.RETAIN].n == CONFIG.retain_examples
    # The original lies on the grid already, so that 4 bits cost it nothing.
    assert values["quantisation.damage-original.int4", Group.RETAIN].value == 0.0
    damage = values["quantisation.damage.int4", Group.RETAIN]
    assert damage.value is not None
    assert damage.value > 0.3


def test_large_moves_stay(original: Recommender, of_original: Mapping[str, Measured]) -> None:
    forget = world.subject(original).split.test.forget
    values = compared(parts(world.subject(world.moved(original, 2.0, forget))), of_original)
    recovery = values["quantisation.recovery.int4", Group.FORGET]
    assert recovery.value is not None
    assert recovery.interval is not None
    assert recovery.interval[1] < 0.2


def test_nothing_to_recover(of_original: Mapping[str, Measured]) -> None:
    notes = {
        row: compared(of_original, of_original, row=row)["quantisation.recovery.int4", Group.FORGET].note
        for row in ("original", "npo")
    }
    assert notes["original"] == "the original recommender has forgotten nothing that could come back"
    assert "only above 0" in (notes["npo"] or "")
    lost = {**of_original, "int4": Measured(reason="the weights are not finite")}
    values = compared(of_original, lost)
    for name in ("recovery", "damage-original"):
        note = next(value.note for (metric, _), value in values.items() if metric == f"quantisation.{name}.int4")
        assert note is not None
        assert note.endswith("original was not measured: the weights are not finite")
    nowhere = compared({"": Measured(reason="no network")}, of_original)
    assert {(value.value, value.note) for value in nowhere.values()} == {(None, "no network")}


def test_sides_without_examples(original: Recommender, of_original: Mapping[str, Measured]) -> None:
    subject = world.subject(original)
    values = compared(parts(world.without_test(subject, forget=True)), of_original)
    assert values["quantisation.hr@10.int8", Group.FORGET].value is None
    assert values["quantisation.recovery.int8", Group.FORGET].value is None
    assert values["quantisation.hr@10.int8", Group.RETAIN].value is not None


def test_curve(of_original: Mapping[str, Measured]) -> None:
    curve = of_original["int4"].curve
    assert curve is not None
    assert list(curve.columns) == ["scheme", "bits", "group", "metric", "value", "low", "high", "n"]
    assert list(curve.metric) == ["hr@10", "hr@10", "ndcg@10"]
    assert curve.bits.unique().tolist() == [4]
    full = of_original["full"].curve
    assert full is not None
    assert full.bits.unique().tolist() == [32]
    assert json.loads(full.to_json(orient="records"))[0]["scheme"] == "full"


def test_causal_models_have_a_part_more() -> None:
    subject = world.without_test(world.subject(causal(1)), retain=True)
    assert MEASUREMENT.parts(subject) == ("full", "int8", "int4", "nf4")
    with pytest.raises(NotMeasurable, match="not asked for"):
        MEASUREMENT.measure(subject, "nf4", CONFIG, Progress())
    with pytest.raises(NotMeasurable, match="bitsandbytes"):
        MEASUREMENT.measure(subject, "nf4", CONFIG.model_copy(update={"nf4": True}), Progress())
    own = {part: MEASUREMENT.measure(subject, part, CONFIG, Progress()) for part in ("full", "int8", "int4")}
    own["nf4"] = Measured(reason="NF4 was not asked for")
    values = MEASUREMENT.compare(own, References(original=own, oracles=[], row="npo"))
    assert {value.note for value in values if value.metric.endswith(".nf4")} == {"NF4 was not asked for"}


def test_importing_it_is_cheap() -> None:
    code = (
        "import sys; import genrec_unlearn_bench.evaluation.quantisation; "
        "print([n for n in ('torch', 'pandas', 'sklearn', 'scipy') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_equal_rows_give_one_without_spread() -> None:
    rows = np.array([1.0, 0.0, 1.0, 1.0] * 10)
    found = paired_ratio(rows, rows, what="it")
    assert (found.value, found.low, found.high, found.n) == (1.0, 1.0, 1.0, 40)


def test_value_and_delta_method() -> None:
    rng = np.random.default_rng(0)
    below = rng.normal(2.0, 0.5, 400)
    above = 0.3 * below + rng.normal(0.0, 0.4, 400)
    found = paired_ratio(above, below, what="it")
    assert found.value == pytest.approx(above.mean() / below.mean())
    # Half width by the delta method, for paired rows: a bootstrap that draws the rows apart is half as wide again.
    half = 1.96 * np.std(above - found.value * below, ddof=1) / below.mean() / np.sqrt(400)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def test_coverage() -> None:
    held = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        below = (rng.random(80) < 0.6).astype(float)
        above = below * (rng.random(80) < 0.5)
        found = paired_ratio(above, below, what="it")
        held += found.low <= 0.5 <= found.high
    assert 0.88 <= held / 80 <= 0.99


@pytest.mark.parametrize(
    ("below", "reason"),
    [
        (np.zeros(30), "it is 0, and only above 0"),
        (-np.ones(30), "it is -1, and only above 0"),
        (np.r_[1.0, np.zeros(29)], "cannot tell from 0"),
        (np.ones(1), "over 1 examples"),
    ],
)
def test_nothing_to_divide_by(below: np.ndarray, reason: str) -> None:
    with pytest.raises(NotMeasurable, match=reason):
        paired_ratio(np.ones(len(below)), below, what="it")
