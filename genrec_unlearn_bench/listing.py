"""Whatever has a name: tasks, methods, backbones, datasets, measurements, metrics, grids. Never imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import UnknownName

if TYPE_CHECKING:
    from genrec_unlearn_bench.registry import Entry


def kind_named(text: str) -> str:
    """The kind of a name, singular or plural. Raises UnknownName."""
    name = text if text in KINDS else f"{text}s"
    if name not in KINDS:
        raise UnknownName("kind", text, KINDS)
    return name


def records_of(kind: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """Everything of a kind, as plain values."""
    return list(KINDS[kind][1](data_dir))


def names_of(kind: str, data_dir: Path | None = None) -> list[str]:
    return [record["name"] for record in records_of(kind, data_dir)]


def rows_of(kind: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """Everything of a kind with the columns of its table."""
    columns = KINDS[kind][0]
    return [{head: _field(one, path) for head, path in columns.items()} for one in records_of(kind, data_dir)]


def _field(record: Mapping[str, Any], path: str) -> Any:
    name, _, rest = path.partition(".")
    return _field(record[name], rest) if rest else record[name]


def _tasks(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.data.catalogue import datasets, packaged_datasets
    from genrec_unlearn_bench.data.tasks import TASK_ENDINGS, find_task, tasks

    for task in tasks().values():
        yield task.model_dump(mode="json")
    for name in datasets(data_dir):
        for ending in TASK_ENDINGS if name not in packaged_datasets() else ():
            yield find_task(f"{name}-{ending}", data_dir).model_dump(mode="json")


def _methods(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.registry import methods

    for entry in methods().values():
        source = str(entry.source) if entry.source else None
        yield {**asdict(entry), "role": _role(entry), "source": source}


def _role(entry: Entry) -> str:
    """``variant``, ``reference``, ``method``, or ``control`` where that is the first word of the method's file."""
    if entry.variant_of:
        return "variant"
    if entry.source is not None and entry.source.read_text(encoding="utf-8").startswith('"""Control'):
        return "control"
    return entry.kind


def _backbones(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.backbones import backbones
    from genrec_unlearn_bench.registry import summary

    for name, place in backbones().items():
        yield {"name": name, "class": place, "summary": summary(place)}


def _datasets(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.data.catalogue import datasets

    for spec in datasets(data_dir).values():
        yield spec.model_dump(mode="json")


def _measurements(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.evaluation.suites import measurements

    for name, asks in measurements().items():
        yield {"name": name, "asks": asks}


def _metrics(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.evaluation.catalogue import metric_specs

    for spec in metric_specs().values():
        # An open end of a range has no number in JSON.
        low, high = (None if abs(end) == float("inf") else end for end in spec.range)
        yield {**spec.model_dump(mode="json", exclude={"range"}), "range": [low, high]}


def _grids(data_dir: Path | None) -> Iterator[dict[str, Any]]:
    from genrec_unlearn_bench.grid.spec import read_content, ready_grids

    # Not their cells, which take a second to work out: `bench show` has them.
    for name, path in ready_grids().items():
        content = read_content(path)
        yield {"name": name, "file": str(path), "description": content["description"], "cost": content["cost"]}


KINDS: Mapping[str, tuple[Mapping[str, str], Callable[[Path | None], Iterator[dict[str, Any]]]]] = {
    "tasks": ({"task": "name", "dataset": "dataset", "forgets": "concept.kind", "title": "title"}, _tasks),
    "methods": ({"method": "name", "kind": "role", "requires": "requires", "summary": "summary"}, _methods),
    "backbones": ({"backbone": "name", "summary": "summary"}, _backbones),
    "datasets": (
        {"dataset": "name", "format": "format", "split": "split", "k-core": "k_core", "title": "title"},
        _datasets,
    ),
    "measurements": ({"measurement": "name", "what it asks": "asks"}, _measurements),
    "metrics": ({"metric": "name", "title": "title", "better": "better", "unit": "unit", "level": "level"}, _metrics),
    "grids": ({"grid": "name", "what it is": "description", "cost": "cost"}, _grids),
}
"""Kind -> columns of its table, each with the field of the records that it shows; and a function that reads them."""
