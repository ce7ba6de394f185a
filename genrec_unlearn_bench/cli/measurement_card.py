"""What ``bench show`` says about a measurement: its account of itself, its configurations and its metrics."""

from __future__ import annotations

import inspect

from genrec_unlearn_bench.cli.descriptions import Card, Sheet, side_by_side

__all__ = ["measurement"]


def measurement(name: str) -> Card:
    """A measurement of the suite full."""
    from genrec_unlearn_bench.backbones.backbone import Scale
    from genrec_unlearn_bench.evaluation.suites import find_measurement

    found = find_measurement(name)
    doc = inspect.getdoc(inspect.getmodule(found)) or inspect.getdoc(found) or ""
    presets = {scale.value: found.config(scale.value).model_dump(mode="json") for scale in Scale}
    models = ["the run", "the original", "every oracle" if found.oracles == 0 else "the first oracle"]
    models += ["a model with random weights"] if found.untrained else []
    content = {
        "kind": "measurement",
        "name": name,
        "doc": doc,
        "models": models,
        "presets": presets,
        "metrics": [spec.name for spec in found.specs],
    }
    metrics = tuple((spec.name, spec.title, spec.description) for spec in found.specs)
    sheets = (
        Sheet("", (("taken of", ", ".join(models)), ("suite", "full"))),
        side_by_side(f"Configuration (--set-measure {name}.FIELD=VALUE)", presets),
        Sheet("Metrics", metrics, ("metric", "title", "what it is")),
    )
    return Card(f"{name}: a measurement", content, doc, sheets)
