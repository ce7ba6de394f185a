"""Whatever has a name: tasks, methods, backbones, datasets, measurements, metrics, grids. Never imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from genrec_unlearn_bench import registry
from genrec_unlearn_bench.errors import UnknownName

KINDS: Mapping[str, Mapping[str, str]] = {
    "tasks": {"task": "name", "dataset": "dataset", "forgets": "concept.kind", "title": "title"},
    "methods": {"method": "name", "kind": "role", "requires": "requires", "summary": "summary"},
    "backbones": {"backbone": "name", "summary": "summary"},
    "datasets": {"dataset": "name", "format": "format", "split": "split", "k-core": "k_core", "title": "title"},
    "measurements": {"measurement": "name", "what it asks": "asks"},
    "metrics": {"metric": "name", "title": "title", "better": "better", "unit": "unit", "level": "level"},
    "grids": {"grid": "name", "what it is": "description", "cost": "cost"},
}
"""Kind -> columns of its table, each with the field of the records that it shows."""


def kind_named(text: str) -> str:
    """The kind of a name, singular or plural. Raises UnknownName."""
    name = text if text in KINDS else f"{text}s"
    if name not in KINDS:
        raise UnknownName("kind", text, KINDS)
    return name


def names_of(kind: str, data_dir: Path | None = None) -> list[str]:
    return [record["name"] for record in records_of(kind, data_dir)]


def rows_of(kind: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """Everything of a kind with the columns of its table."""
    columns = {head: path.split(".") for head, path in KINDS[kind].items()}
    return [{head: reduce(getitem, path, one) for head, path in columns.items()} for one in records_of(kind, data_dir)]


def records_of(kind: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """Everything of a kind, as plain values."""
    from genrec_unlearn_bench.backbones import backbones
    from genrec_unlearn_bench.data.catalogue import datasets
    from genrec_unlearn_bench.data.tasks import all_tasks
    from genrec_unlearn_bench.evaluation.catalogue import metric_specs
    from genrec_unlearn_bench.evaluation.suites import measurements
    from genrec_unlearn_bench.grid.spec import read_content, ready_grids

    match kind:
        case "tasks":
            return [task.model_dump(mode="json") for task in all_tasks(data_dir).values()]
        case "methods":
            found = [(one, str(one.source) if one.source else None) for one in registry.methods().values()]
            return [{**asdict(entry), "role": entry.role, "source": source} for entry, source in found]
        case "backbones":
            places = backbones().items()
            return [{"name": name, "class": place, "summary": registry.summary(place)} for name, place in places]
        case "datasets":
            return [spec.model_dump(mode="json") for spec in datasets(data_dir).values()]
        case "measurements":
            return [{"name": name, "asks": asks} for name, asks in measurements().items()]
        case "metrics":
            # An open end of a range has no number in JSON.
            specs = [spec.model_dump(mode="json") for spec in metric_specs().values()]
            ends = [[None if abs(end) == float("inf") else end for end in spec.pop("range")] for spec in specs]
            return [{**spec, "range": both} for spec, both in zip(specs, ends, strict=True)]
        case _:
            # Not their cells, which take a second to work out: `bench show` has them.
            grids = [(name, path, read_content(path)) for name, path in ready_grids().items()]
            return [
                {"name": name, "file": str(path), "description": content["description"], "cost": content["cost"]}
                for name, path, content in grids
            ]
