"""Planted proof: what is gone, what is hidden, and what only changed its name are told apart."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.evaluation.catalogue import metric_spec
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, References
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricValue
from genrec_unlearn_bench.evaluation.relearning.measurement import Attack, Relearning, Space
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.evaluation.relearning import world

pytestmark = pytest.mark.slow

HARD = "forget-100/served"


def _values(own: dict[str, Measured], references: References) -> dict[str, MetricValue]:
    return {value.metric: value for value in Relearning().compare(own, references)}


def _rates(own: dict[str, Measured], part: str) -> list[float]:
    hits = own[part].samples["train"]
    return [float(row.mean()) for row in hits]


@pytest.fixture(scope="module")
def held_against() -> References:
    return world.references(HARD)


def test_what_is_hidden_and_what_was_never_learned_are_told_apart(held_against: References) -> None:
    hidden = world.attacked(world.hidden(), HARD)
    never = world.attacked(world.trained(on_concept=False, seed=1), HARD)
    # Before the attack nobody can see a difference.
    assert max(_rates(hidden, HARD)[0], _rates(never, HARD)[0]) < 0.05
    back, gone = (_values(own, held_against) for own in (hidden, never))
    name = "relearning.recovery.forget-100"
    assert back[name].value is not None
    assert back[name].value > 0.6
    assert back[name].interval is not None
    assert back[name].interval[0] > 0.5
    assert gone[name].value is not None
    assert abs(gone[name].value) < 0.2
    assert back["relearning.peak.forget-100"].value == back[name].value
    assert back["relearning.hr@10.forget-100"].value == _rates(hidden, HARD)[-1] > 0.75


def test_retrain_against_itself_is_exactly_0_and_original_begins_at_1(held_against: References) -> None:
    retrain = _values(dict(held_against.oracles[0]), held_against)
    original = _values(dict(held_against.original), held_against)
    for quantity in ("recovery", "peak"):
        assert retrain[f"relearning.{quantity}.forget-100"].value == 0.0
        assert retrain[f"relearning.{quantity}.forget-100"].interval == (0.0, 0.0)
    assert original["relearning.peak.forget-100"].value == 1.0


def test_new_names_hide_from_the_new_table_alone() -> None:
    model = world.trained(on_concept=True).with_sids(world.relabelled())
    parts = ("mixed/served", "mixed/original")
    assert set(parts) < set(Relearning().parts(world.subject(model)))
    own = world.attacked(model, *parts)
    # What the old name of one item and the new name of another share is met by chance.
    assert _rates(own, "mixed/served")[0] < 0.3
    assert _rates(own, "mixed/original")[0] == 1.0
    values = _values(own, world.references("mixed/served"))
    assert values["relearning.original-sids.peak.mixed"].value == pytest.approx(1.0, abs=0.05)
    served = values["relearning.area.mixed"].value
    original = values["relearning.original-sids.area.mixed"].value
    assert served is not None
    assert original is not None
    assert served < 0.2 < 0.8 < original


def test_a_serving_filter_holds_where_it_serves_and_nowhere_else() -> None:
    model = world.trained(on_concept=True).with_serving(ServingRules(blocked=world.concept()))
    own = world.attacked(model, "mixed/served", "mixed/original")
    assert _rates(own, "mixed/served") == [0.0, 0.0, 0.0]
    assert _rates(own, "mixed/original")[0] == 1.0
    values = _values(own, world.references("mixed/served"))
    assert values["relearning.hr@10.mixed"].value == 0.0
    # All that can be got out is what the weights hold, whatever is served.
    recoverable = values["relearning.recoverable"]
    assert recoverable.value == values["relearning.original-sids.peak.mixed"].value
    assert recoverable.note == "by mixed/original, of 2 attacks"
    assert recoverable.interval is not None
    # It comes back no faster than any model, as it never comes back; who holds the weights has it at once.
    assert (values["relearning.peak.mixed"].value or 0.0) <= 0.0
    assert values["relearning.original-sids.peak.mixed"].value == pytest.approx(1.0, abs=0.05)


def test_one_space_is_measured_once_and_stands_for_both(held_against: References) -> None:
    model = world.trained(on_concept=True)
    assert Relearning().parts(world.subject(model)) == tuple(f"{attack}/served" for attack in Attack)
    values = _values(dict(held_against.original), held_against)
    served, copied = values["relearning.hr@10.forget-100"], values["relearning.original-sids.hr@10.forget-100"]
    assert copied.value == served.value
    assert served.note is None
    assert copied.note is not None
    assert "the original's" in copied.note


def test_histories_that_are_cut_at_serving_make_another_space() -> None:
    model = world.trained(on_concept=True).with_serving(ServingRules(ignored=world.concept()))
    assert len(Relearning().parts(world.subject(model))) == 12


def test_a_tokenizer_of_its_own_has_no_original_space() -> None:
    marked: BoolArray = world.concept()
    codes = world.table().codes.copy()
    codes[marked] = np.roll(codes[marked], 3, axis=0)
    model = world.trained(on_concept=True)
    other = T5Recommender(model.model, model.shape, SidTable(codes, (8, 8, 8), 3))
    subject = world.subject(other)
    assert set(next(iter(subject.pass_arrays.values()))) == {"served.train", "served.test"}
    with pytest.raises(NotMeasurable, match="a tokenizer of its own"):
        Relearning().measure(subject, "mixed/original", world.CONFIG, Progress())


def test_every_metric_is_there_with_its_reason(held_against: References) -> None:
    for own in (
        {"": Measured(reason="no tokens")},
        {f"{a}/{s}": Measured(reason="no tokens") for a in Attack for s in Space},
    ):
        values = Relearning().compare(own, held_against)
        assert [value.metric for value in values] == [spec.name for spec in Relearning.specs]
        assert all((value.value, value.note) == (None, "no tokens") for value in values)


def test_missing_references_are_said_to_be_missing(held_against: References) -> None:
    own = dict(held_against.original)
    alone = _values(own, References(original=own, oracles=[]))
    assert alone["relearning.recovery.forget-100"].note == "no retrained model to compare with"
    assert alone["relearning.hr@10.forget-100"].value is not None
    broken = _values(own, References(original=own, oracles=[{HARD: Measured(reason="it diverged")}]))
    assert broken["relearning.peak.forget-100"].note == "retrain: it diverged"
    # What was not attacked is no number either.
    assert alone["relearning.hr@10.mixed"].note == "the run was not attacked"


def test_an_attack_cut_short_says_so() -> None:
    config = world.CONFIG.model_copy(update={"steps": (0, 2, 200)})
    own = world.attacked(world.hidden(), "forget-1/served", config=config)
    found = _values(own, References(original=own, oracles=[]))["relearning.hr@10.forget-1"]
    assert found.value is not None
    assert found.note == "the attack ends after 2 of 200 steps: 200 are 200 passes over its data"


def test_the_curve_may_be_published() -> None:
    curve = world.attacked(world.trained(on_concept=True), "mixed/served")["mixed/served"].curve
    assert curve is not None
    columns = ["attack", "space", "step", "passes", "part", "hr@10", "low", "high", "n"]
    assert curve.columns.tolist() == columns
    assert len(curve) == 2 * 3
    assert set(curve["part"]) == {"train", "test"}
    assert ((curve["low"] <= curve["hr@10"]) & (curve["hr@10"] <= curve["high"])).all()


def test_metrics_are_declared() -> None:
    names = [spec.name for spec in Relearning.specs]
    assert len(names) == len(set(names)) == 49
    for spec in Relearning.specs:
        assert metric_spec(spec.name) == spec
        assert spec.better == {Group.FORGET: Better.LOWER}
    assert {"relearning.hr@10.mixed", "relearning.original-sids.recovery.forget-1"} < set(names)


def test_the_measurement_imports_nothing_heavy() -> None:
    code = (
        "import sys, genrec_unlearn_bench.evaluation.relearning.measurement;"
        "print([m for m in ('torch', 'pandas', 'scipy', 'sklearn', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
