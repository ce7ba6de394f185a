"""All metrics are declared once, and listing them imports nothing heavy."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from genrec_unlearn_bench import evaluation
from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.catalogue import metric_spec, metric_specs


def test_names_are_unique_and_complete() -> None:
    found = pkgutil.walk_packages(evaluation.__path__, f"{evaluation.__name__}.")
    specs = [getattr(importlib.import_module(module.name), "SPECS", ()) for module in found]
    # Some modules take over the specs of another one by name.
    declared = [spec.name for part in {id(part): part for part in specs}.values() for spec in part]
    assert len(declared) == len(set(declared)) == len(metric_specs())
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
        "print([m for m in ('torch', 'pandas', 'scipy', 'pyarrow', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
