"""``bench ls``: tasks, methods, backbones, datasets, measurements, metrics and grids. Never imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import handled, print_json, stdout
from genrec_unlearn_bench.errors import UnknownName

__all__ = ["KINDS", "Listing", "listing", "ls"]


@handled
def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="tasks, methods, backbones, datasets, measurements, metrics or grids; all where none is given."
        ),
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
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for index, column in enumerate(found.columns):
        table.add_column(column, no_wrap=index == 0, overflow="fold")
    for row in found.rows:
        table.add_row(*row)
    stdout().print(table)


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
    return Listing(
        "tasks",
        ("task", "dataset", "forgets", "title"),
        tuple((task.name, task.dataset, task.concept.kind, task.title) for task in found),
        tuple(task.model_dump(mode="json") for task in found),
    )


def _methods(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.registry import methods

    found = list(methods().values())
    return Listing(
        "methods",
        ("method", "kind", "requires", "summary"),
        tuple(
            (entry.name, "variant" if entry.variant_of else entry.kind, ", ".join(entry.requires) or "–", entry.summary)
            for entry in found
        ),
        tuple({**asdict(entry), "source": str(entry.source) if entry.source else None} for entry in found),
    )


def _backbones(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.backbones.catalogue import backbones
    from genrec_unlearn_bench.registry import summary

    found = backbones()
    return Listing(
        "backbones",
        ("backbone", "summary"),
        tuple((name, summary(place)) for name, place in found.items()),
        tuple({"name": name, "class": place, "summary": summary(place)} for name, place in found.items()),
    )


def _datasets(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.data.catalogue import datasets

    found = list(datasets(data_dir).values())
    return Listing(
        "datasets",
        ("dataset", "format", "split", "k-core", "title"),
        tuple((spec.name, spec.format, spec.split, str(spec.k_core or "–"), spec.title) for spec in found),
        tuple(spec.model_dump(mode="json") for spec in found),
    )


def _measurements(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.evaluation.catalogue import metric_specs
    from genrec_unlearn_bench.evaluation.suites import measurements

    found = measurements()
    metrics = {name: [metric for metric in metric_specs() if metric.startswith(f"{name}.")] for name in found}
    return Listing(
        "measurements",
        ("measurement", "metrics", "what it asks"),
        tuple((name, str(len(metrics[name])), asks) for name, asks in found.items()),
        tuple({"name": name, "metrics": metrics[name], "asks": asks} for name, asks in found.items()),
    )


def _metrics(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.evaluation.catalogue import metric_specs

    found = list(metric_specs().values())
    rows = []
    for spec in found:
        better = ", ".join(f"{group.value} {way.value}" for group, way in spec.better.items())
        rows.append((spec.name, spec.title, better, spec.unit, spec.level.value))
    records = []
    for spec in found:
        # An open end of a range has no number in JSON.
        low, high = (None if abs(end) == float("inf") else end for end in spec.range)
        records.append({**spec.model_dump(mode="json", exclude={"range"}), "range": [low, high]})
    return Listing("metrics", ("metric", "title", "better", "unit", "level"), tuple(rows), tuple(records))


def _grids(data_dir: Path | None) -> Listing:
    from genrec_unlearn_bench.grid.grid_file import read_text, ready_grids

    # What their cells are takes a second to work out, and `bench show` tells it.
    found = {name: (path, read_text(path, path.name).content) for name, path in ready_grids().items()}
    return Listing(
        "grids",
        ("grid", "what it is", "cost"),
        tuple((name, content["description"], content["cost"]) for name, (_, content) in found.items()),
        tuple(
            {"name": name, "file": str(path), "description": content["description"], "cost": content["cost"]}
            for name, (path, content) in found.items()
        ),
    )


KINDS: dict[str, Callable[[Path | None], Listing]] = {
    "tasks": _tasks,
    "methods": _methods,
    "backbones": _backbones,
    "datasets": _datasets,
    "measurements": _measurements,
    "metrics": _metrics,
    "grids": _grids,
}
