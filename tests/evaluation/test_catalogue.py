"""All metrics are declared once, and listing them imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation import catalogue
from genrec_unlearn_bench.evaluation.catalogue import compared, family, metric_spec, metric_specs
from genrec_unlearn_bench.evaluation.metric import MetricSpec


def test_metrics_are_declared_once_and_whole() -> None:
    declared = yaml.safe_load(Path(catalogue.__file__).with_name("metrics.yaml").read_text(encoding="utf-8"))
    assert len(metric_specs()) == 326
    assert all(set(entry) <= {*MetricSpec.model_fields, "each", "compared"} for entry in declared)
    assert not [
        spec for spec in metric_specs().values() if "{" in spec.model_dump_json()[1:-1].replace('"better":{', "")
    ]
    for name, spec in metric_specs().items():
        assert name == spec.name == name.lower()
        assert spec.better
        assert spec.range[0] < spec.range[1]
        assert spec.description.endswith(".")
        assert spec.title
        assert spec.unit
        assert spec.source


def test_unknown_names_get_a_hint() -> None:
    assert metric_spec("ndcg@10").title == "NDCG@10"
    with pytest.raises(UnknownName, match="hr@10"):
        metric_spec("hr@100")


def test_a_listing_is_light() -> None:
    code = (
        "import sys; from genrec_unlearn_bench.evaluation.catalogue import metric_specs; metric_specs();"
        "print([m for m in ('numpy', 'torch', 'pandas', 'scipy', 'pyarrow', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_combination_is_a_metric_of_its_own_with_its_gap() -> None:
    assert [spec.name for spec in family("membership.tpr.")] == [
        f"membership.tpr.{score}" for score in ("loss", "min-k", "min-k++", "reference", "u-lira")
    ]
    damage = metric_spec("quantisation.damage-original.int8")
    assert "of the original recommender with 8-bit round-to-nearest weights:" in damage.description
    assert damage.range == (-1.0, float("inf"))
    for name in compared():
        assert {f"gap.{name}", f"gapz.{name}"} < metric_specs().keys()
