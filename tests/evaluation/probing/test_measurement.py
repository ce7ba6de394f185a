"""From a model to metric values, and every reason why there are none."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.measurement import Measured, References, Subject
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricValue
from genrec_unlearn_bench.evaluation.probing.measurement import (
    COLUMNS,
    NUMBERS,
    SITES,
    SPECS,
    STATES,
    Probing,
    ProbingConfig,
)
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.progress import Progress
from tests.evaluation.probing.worlds import CONFIG, catalogue, subject, without_items

NOTHING = Measured(reason="nobody asked")


def measure(given: Subject, **changes: Any) -> Measured:
    read = replace(given, pass_arrays={STATES.name: STATES.run(given, Progress()).samples})
    config = ProbingConfig.model_validate(CONFIG.model_dump() | changes)
    return Probing().measure(read, "", config, Progress())


def probed(auroc: float, layers: tuple[int, ...]) -> Measured:
    """A model that only the prompt was measured of."""
    numbers = [
        {"n": 10.0, "auroc": auroc, "auroc_low": auroc - 0.1, "auroc_high": auroc + 0.1}.get(n, 0.2) for n in NUMBERS
    ]
    table = pd.DataFrame({"site": list(SITES), "layer": [1, -1, -1, -1], "note": ["", "so", "so", "so"]})
    samples = {"prompt.headline": np.array(numbers), "prompt.layers": np.array(layers)}
    return Measured(curve=table.reindex(columns=list(COLUMNS)), samples=samples)


def values(own: Measured, untrained: Measured | None = NOTHING) -> dict[str, MetricValue]:
    floor = None if untrained is None else {"": untrained}
    found = Probing().compare({"": own}, References({"": own}, [], floor))
    assert [value.metric for value in found] == [spec.name for spec in SPECS]
    return {value.metric: value for value in found}


def test_tokens_of_their_own_are_found_where_the_items_are_seen_and_nowhere_else() -> None:
    # TRACER's trap: the model has random weights and knows nothing, but the concept's items look different.
    found = values(measure(subject(*catalogue(told=True), users=800)))
    for site in ("history", "embedding"):
        assert found[f"probing.auroc.{site}"].value > 0.9, site
    for site in ("prompt", "pooled"):
        low, high = found[f"probing.auroc.{site}"].interval
        assert low < 0.5 < high, site


def test_tokens_that_say_nothing_are_at_chance_everywhere() -> None:
    found = values(measure(subject(*catalogue(told=False), users=800)))
    for site in SITES:
        low, high = found[f"probing.auroc.{site}"].interval
        assert low < 0.5 < high, site


def test_the_curve_has_every_site_and_layer_and_no_ids() -> None:
    found = measure(subject(*catalogue(told=True))).curve
    assert tuple(found.columns) == COLUMNS
    layers = {site: list(part["layer"]) for site, part in found.groupby("site")}
    assert layers == {"prompt": [1, 2], "pooled": [0, 1, 2], "history": [0, 1, 2], "embedding": [0]}
    assert ((found["auroc_low"] <= found["auroc"]) & (found["auroc"] <= found["auroc_high"])).all()
    assert np.allclose(found["accuracy"] - found["control_accuracy"], found["selectivity"])


def test_values_are_those_of_each_divisions_best_layer_with_their_intervals() -> None:
    found = values(probed(0.7, (2, 1)), probed(0.5, (1, 1)))
    own, floor = found["probing.auroc.prompt"], found["probing.floor.prompt"]
    assert (own.value, own.n, own.note) == (0.7, 10, "layers of the divisions: 2, 1")
    assert own.interval == pytest.approx((0.6, 0.8))
    assert (floor.value, floor.note) == (0.5, "layers of the divisions: 1, 1")
    assert {found[f"probing.{measure}.pooled"].note for measure in ("auroc", "selectivity", "floor")} == {"so"}


def test_a_headline_is_between_the_layers_that_the_divisions_chose() -> None:
    found = measure(subject(*catalogue(told=True), users=800))
    chosen = found.samples["history.layers"]
    rows = found.curve[found.curve["site"] == "history"].set_index("layer")["auroc"]
    headline = dict(zip(NUMBERS, found.samples["history.headline"], strict=True))
    assert len(chosen) == CONFIG.splits
    assert rows[chosen].min() - 0.01 <= headline["auroc"] <= rows[chosen].max() + 0.01


def test_the_same_model_and_seed_give_the_same_curve() -> None:
    given = subject(*catalogue(told=True))
    pd.testing.assert_frame_equal(measure(given).curve, measure(given).curve)


def test_single_interactions_have_no_items_to_look_at() -> None:
    given = subject(*catalogue(told=True), users=800)
    forget = given.split.train.forget
    pairs = list(zip(forget.users.tolist(), forget.targets.tolist(), strict=True))
    found = values(measure(replace(given, split=without_items(given.split, pairs))))
    assert found["probing.auroc.prompt"].value is not None
    for site in ("history", "embedding"):
        assert "no item is marked" in (found[f"probing.auroc.{site}"].note or "")


def test_a_model_served_without_the_concept_has_no_history_to_look_at() -> None:
    given = subject(*catalogue(told=True))
    blind = given.recommender.with_serving(ServingRules(ignored=given.split.items))
    found = values(measure(replace(given, recommender=blind)))
    assert "served without the concept" in (found["probing.auroc.history"].note or "")
    assert found["probing.auroc.embedding"].value > 0.9


def test_too_few_forget_users_leave_nothing_to_measure_but_items() -> None:
    found = values(measure(subject(*catalogue(told=True), users=12)))
    assert found["probing.auroc.prompt"].value is None
    assert "are needed" in (found["probing.selectivity.prompt"].note or "")
    assert found["probing.auroc.embedding"].value is not None


@pytest.mark.parametrize("value", [False, True])
def test_one_class_is_refused_before_anything_is_read(value: bool) -> None:
    table, concept = catalogue(told=True)
    given = subject(table, np.full_like(concept, value))
    assert "a probe needs two classes" in STATES.run(given, Progress()).reason


def test_what_was_not_measured_is_none_with_the_reason() -> None:
    found = values(Measured(reason="popularity is no generative recommender"), None)
    notes = {value.note for name, value in found.items() if ".floor." not in name}
    assert notes == {"popularity is no generative recommender"}
    floors = {value.note for name, value in found.items() if ".floor." in name}
    assert floors == {"no model with random weights was measured"}
    assert all(value.value is None for value in found.values())


def test_it_is_declared_and_found_by_name() -> None:
    measurement = find_measurement("probing")
    assert measurement.specs == SPECS
    assert measurement.untrained
    assert len(SPECS) == 16
    assert all(spec.name in metric_specs() for spec in SPECS)
    assert {spec.better[Group.ALL] for spec in SPECS if ".floor." in spec.name} == {Better.NONE}
    assert {spec.better[Group.ALL] for spec in SPECS if ".floor." not in spec.name} == {Better.LOWER}
    assert measurement.config("smoke").splits < measurement.config("small").splits


def test_naming_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, genrec_unlearn_bench.evaluation.probing.measurement\n"
        "print([name for name in ('torch', 'pandas', 'sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
