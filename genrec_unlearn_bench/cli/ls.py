"""``bench ls``: tasks, methods, backbones, datasets, measurements, metrics and grids. Never imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import Sheet, handled, print_json, stdout
from genrec_unlearn_bench.errors import UnknownName

__all__ = ["KINDS", "Listing", "listing", "ls"]


@handled
def ls(
    kind: Annotated[
        str | None,
        Argument(help="tasks, methods, backbones, datasets, measurements, metrics or grids; all where none is given."),
    ] = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """List tasks, methods, backbones, datasets, measurements, metrics or grids."""
    if kind is None:
        _overview([listing(name, data_dir) for name in KINDS], as_json=as_json)
        return
    found = listing(kind, data_dir)
    if as_json:
        print_json(list(found.records))
        return
    Sheet("", found.rows, found.columns).draw(stdout())


def _overview(found: list[Listing], *, as_json: bool) -> None:
    if as_json:
        print_json({part.kind: [row[0] for row in part.rows] for part in found})
        return
    from rich.padding import Padding
    from rich.text import Text

    console = stdout()
    for part in found:
        names = [row[0] for row in part.rows]
        # Ninety-nine metrics would push everything else off the screen.
        shown = names if len(names) <= 40 else [*names[:8], "…"]
        console.print(Text.assemble((part.kind, "bold"), f" ({len(names)})"))
        console.print(Padding(Text(", ".join(shown)), (0, 0, 1, 2)))
    console.print("More about a kind: bench ls tasks. About one thing: bench show demo-brand.")


@dataclass(frozen=True)
class Listing:
    """One kind of thing.

    Attributes:
        rows: One tuple of texts for each thing, its name first.
        records: The same things as JSON, in the same order.
    """

    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    records: tuple[dict[str, Any], ...]


def listing(kind: str, data_dir: Path | None = None) -> Listing:
    """Everything of a kind (singular or plural). Raises UnknownName."""
    name = kind if kind in KINDS else f"{kind}s"
    if name not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    return KINDS[name](data_dir)


def _tasks(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.data.tasks import tasks

    found = list(tasks().values())
    rows = tuple((task.name, task.dataset, task.concept.kind, task.title) for task in found)
    records = tuple(task.model_dump(mode="json") for task in found)
    return Listing("tasks", ("task", "dataset", "forgets", "title"), rows, records)


def _methods(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.registry import methods

    found = list(methods().values())
    rows = tuple(
        (entry.name, "variant" if entry.variant_of else entry.kind, ", ".join(entry.requires) or "–", entry.summary)
        for entry in found
    )
    records = tuple({**asdict(entry), "source": str(entry.source) if entry.source else None} for entry in found)
    return Listing("methods", ("method", "kind", "requires", "summary"), rows, records)


def _backbones(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.backbones.catalogue import backbones
    from genrec_unlearn_bench.registry import summary

    records = tuple({"name": name, "class": place, "summary": summary(place)} for name, place in backbones().items())
    rows = tuple((record["name"], record["summary"]) for record in records)
    return Listing("backbones", ("backbone", "summary"), rows, records)


def _datasets(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.data.catalogue import datasets

    found = list(datasets(data_dir).values())
    rows = tuple((spec.name, spec.format, spec.split, str(spec.k_core or "–"), spec.title) for spec in found)
    records = tuple(spec.model_dump(mode="json") for spec in found)
    return Listing("datasets", ("dataset", "format", "split", "k-core", "title"), rows, records)


def _measurements(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.evaluation.catalogue import metric_specs
    from genrec_unlearn_bench.evaluation.suites import measurements

    records: tuple[dict[str, Any], ...] = tuple(
        {"name": name, "metrics": [metric for metric in metric_specs() if metric.startswith(f"{name}.")], "asks": asks}
        for name, asks in measurements().items()
    )
    rows = tuple((record["name"], str(len(record["metrics"])), record["asks"]) for record in records)
    return Listing("measurements", ("measurement", "metrics", "what it asks"), rows, records)


def _metrics(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.evaluation.catalogue import metric_specs

    rows, records = [], []
    for spec in metric_specs().values():
        better = ", ".join(f"{group.value} {way.value}" for group, way in spec.better.items())
        rows.append((spec.name, spec.title, better, spec.unit, spec.level.value))
        # An open end of a range has no number in JSON.
        low, high = (None if abs(end) == float("inf") else end for end in spec.range)
        records.append({**spec.model_dump(mode="json", exclude={"range"}), "range": [low, high]})
    return Listing("metrics", ("metric", "title", "better", "unit", "level"), tuple(rows), tuple(records))


def _grids(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.grid.grid_file import read_text, ready_grids

    # Not their cells, which take a second to work out: `bench show` has them.
    records = []
    for name, path in ready_grids().items():
        content = read_text(path, path.name).content
        records.append(
            {"name": name, "file": str(path), "description": content["description"], "cost": content["cost"]}
        )
    rows = tuple((record["name"], record["description"], record["cost"]) for record in records)
    return Listing("grids", ("grid", "what it is", "cost"), rows, tuple(records))


KINDS: dict[str, Callable[[Path | None], Listing]] = {
    "tasks": _tasks,
    "methods": _methods,
    "backbones": _backbones,
    "datasets": _datasets,
    "measurements": _measurements,
    "metrics": _metrics,
    "grids": _grids,
}
