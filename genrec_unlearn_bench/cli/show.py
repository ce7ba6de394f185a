"""``bench ls`` and ``bench show``: what there is, and everything about one thing. ``ls`` never imports torch."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.padding import Padding
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card, describe, sheet, text_of
from genrec_unlearn_bench.config import plain_yaml
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.locate import candidate_folders, is_local, locate
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.listing import KINDS, kind_named, names_of, records_of, rows_of
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.progress_display import open_store
from genrec_unlearn_bench.registry import find_method, load_class, source_digest

if TYPE_CHECKING:
    from genrec_unlearn_bench.tuning.space import SearchSpace
    from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

PROSE = 40
"""Characters from which a column may be wrapped."""
NARROWEST = 24
"""Characters that a wrapped column needs: a title is longer than its longest word."""


def ls(
    kind: Annotated[
        str | None, Argument(help="tasks, methods, backbones, datasets, measurements, metrics or grids.")
    ] = None,
    data_dir: options.DataDir = None,
) -> Output:
    """List tasks, methods, backbones, datasets, measurements, metrics or grids."""

    def overview(console: Console) -> None:
        for kind in KINDS:
            if kind == "metrics":
                # Hundreds, and their declarations are the one thing here that imports numpy.
                _draw_paragraph(kind, "hundreds: bench ls metrics, or bench show hr@10 for one of them", console)
            else:
                names = names_of(kind, data_dir)
                _draw_paragraph(f"{kind} ({len(names)})", ", ".join(names), console)
        console.print("More about a kind: bench ls tasks. About one thing: bench show demo-brand.")

    if kind is None:
        return Output(lambda: {name: names_of(name, data_dir) for name in KINDS}, [overview])
    name = kind_named(kind)
    return Output(lambda: records_of(name, data_dir), [lambda console: _draw(rows_of(name, data_dir), console)])


def _draw(found: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A table; where words would be broken in it, one paragraph for each thing."""
    columns = list(found[0])
    rows = [[text_of(cell) for cell in row.values()] for row in found]
    longest = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    needed = sum(min(length, NARROWEST) if length > PROSE else length for length in longest[1:])
    if longest[0] + needed + 3 * len(longest) + 1 <= console.width:
        table = sheet(rows, columns)
        for column, length in zip(table.columns[1:], longest[1:], strict=True):
            column.no_wrap = length <= PROSE
        console.print(table)
        return
    for name, *rest in rows:
        _draw_paragraph(name, " · ".join(text for text in rest if text not in ("", "–")), console)


def _draw_paragraph(title: str, text: str, console: Console) -> None:
    console.print(title, style="bold")
    console.print(Padding(text, (0, 0, 1, 2)))


def show(
    name: Annotated[
        str,
        Argument(help="Name of anything that bench ls lists, or path/to/method.py:Class, or a task's or grid's file."),
    ],
    kind: Annotated[
        str | None, Option(help="task, method, dataset …, where a name means several things (kinds: bench ls).")
    ] = None,
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Show one thing: a task's concept and what it resolves to, a method's configuration, a metric's definition …"""
    match _kind_of(name, kind, data_dir):
        case "tasks":
            return _task(name, data_dir, cache_dir)
        case "datasets":
            return dataset_card(name, data_dir)
        case "grids":
            return _grid(name, data_dir)
        case "methods":
            return _method(name)
        case "backbones":
            return _backbone(name)
        case "measurements":
            return _measurement(name)
    return _metric(name)


def _kind_of(name: str, kind: str | None, data_dir: Path | None) -> str:
    """The kind a name belongs to; the first where it belongs to several and none was requested."""
    if kind is not None:
        return kind_named(kind)
    if name.endswith((".yaml", ".yml")):
        # A file that cannot be read is told by the reader of tasks.
        with suppress(OSError, ValueError, yaml.YAMLError):
            if "axes" in plain_yaml(Path(name).read_text(encoding="utf-8")):
                return "grids"
        return "tasks"
    if ".py" in name:
        return "methods"
    known = {candidate: names_of(candidate, data_dir) for candidate in KINDS}
    if found := next((candidate for candidate, names in known.items() if name in names), None):
        return found
    try:
        # Tasks of imported datasets are not listed: there is one for each kind of concept.
        find_task(name, data_dir)
    except UnknownName:
        raise UnknownName("name", name, [one for names in known.values() for one in names]) from None
    return "tasks"


def _task(name: str, data_dir: Path | None, cache_dir: Path | None) -> Output:
    from genrec_unlearn_bench.pipeline.stage import StageContext
    from genrec_unlearn_bench.pipeline.stages.data import dataset_stage, task_stage

    spec = find_task(name, data_dir)
    source = find_dataset(spec.dataset, data_dir)
    fields = spec.model_dump(mode="json")
    view = {field: value for field, value in fields.items() if field not in ("name", "title", "description")}
    text, manifest, sheets = spec.description, None, []
    if is_local(source, data_dir):
        with open_store(cache_dir) as (store, progress):
            context = StageContext(store, progress)
            task = task_stage(spec, dataset_stage(source, data_dir, progress))
            manifest = context.load(task).manifest.model_dump(mode="json")
        counted = {field: len(manifest[field]) for field in ("forget_items", "forget_interactions")}
        sheets = describe({**manifest, **counted})
        sheets[0].title = "What it resolves to"
    else:
        text += f"\n\nThe data of {spec.dataset!r} is not here, so what it resolves to is not shown (--data-dir)."
    content = {"kind": "task", "spec": fields, "manifest": manifest}
    return card(f"{spec.name}: {spec.title}", content, text, view=view, sheets=sheets)


def _method(name: str) -> Output:
    from genrec_unlearn_bench.tuning.rule import TRIALS
    from genrec_unlearn_bench.tuning.space import search_space
    from genrec_unlearn_bench.unlearning.method import UnlearningMethod

    entry = find_method(name)
    content: dict[str, Any] = {"kind": entry.kind, "name": entry.name, "digest": source_digest(entry)}
    if entry.kind == "reference":
        return card(f"{entry.name}: a reference row", {**content, "doc": entry.summary}, entry.summary)
    found: type[UnlearningMethod[Any]] = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    space = search_space(found, entry.name, entry.fields, {})
    trials = space.trials(TRIALS)
    view = {
        "requires": sorted(found.requires),
        "source": str(entry.source or entry.target),
        "variant": entry.summary if entry.variant_of else "",
        "config": _fields(found.Config, space),
        "trials": f"{len(trials)} of {space.size} configurations" if space.values else "nothing to search",
        "variants": [{"name": variant, "changes": dict(fields)} for variant, fields in found.variants.items()],
    }
    content |= {"doc": _doc(found), **view, "variants": dict(found.variants), "fields": dict(entry.fields)}
    return card(f"{entry.name}: a method", content, _doc(found), view=view)


def dataset_card(name: str, data_dir: Path | None) -> Output:
    """A dataset's specification, and where its files were looked for."""
    spec = find_dataset(name, data_dir)
    folders = [str(folder) for folder in candidate_folders(spec, data_dir)] if spec.format != "demo" else []
    there = spec.format != "demo" and is_local(spec, data_dir)
    place = str(locate(spec, data_dir, Progress(), download=False).folder) if there else None
    content = {"kind": "dataset", "spec": spec.model_dump(mode="json"), "looked_in": folders, "found_in": place}
    view = {
        **{field: getattr(spec, field) for field in ("format", "split", "k_core", "text_fields", "terms", "where")},
        "cite": [citation.key for citation in spec.citations],
        "found in": place or ("nowhere" if folders else "generated"),
        "looked in": folders,
        "files": [
            {"role": file.role, "name": " or ".join(file.names), "address": file.url or "no public address"}
            for file in spec.files
        ],
    }
    return card(f"{spec.name}: {spec.title}", content, "\n".join(spec.notes), view=view)


def _backbone(name: str) -> Output:
    from genrec_unlearn_bench.backbones import load_backbone
    from genrec_unlearn_bench.backbones.config import Scale

    found = load_backbone(name)
    presets = {scale.value: found.presets[scale].model_dump(mode="json") for scale in Scale}
    sids = {scale.value: found.sid_presets[scale].model_dump(mode="json") for scale in Scale}
    flags = {scale.value: sorted(found.capabilities(found.presets[scale], found.sid_presets[scale])) for scale in Scale}
    content = {"kind": "backbone", "name": name, "doc": _doc(found), "capabilities": flags}
    content |= {"presets": presets, "sid_presets": sids}
    view = {"capabilities": flags, "Recommender (--set-backbone)": presets, "SIDs (--set-sid)": sids}
    return card(f"{name}: a backbone", content, _doc(found), view=view)


def _measurement(name: str) -> Output:
    from genrec_unlearn_bench.backbones.config import Scale
    from genrec_unlearn_bench.evaluation.suites import find_measurement

    found = find_measurement(name)
    presets = {scale.value: found.config(scale.value).model_dump(mode="json") for scale in Scale}
    models = ["the run", "the original", "every oracle" if found.oracles == 0 else "the first oracle"]
    models += ["a model with random weights"] if found.untrained else []
    content = {"kind": "measurement", "name": name, "doc": _doc(found), "models": models, "presets": presets}
    content["metrics"] = [spec.name for spec in found.specs]
    view = {
        "taken of": models,
        "suite": "full",
        f"Configuration (--set-measure {name}.FIELD=VALUE)": presets,
        "metrics": [{"metric": spec.name, "title": spec.title, "what it is": spec.description} for spec in found.specs],
    }
    return card(f"{name}: a measurement", content, _doc(found), view=view)


def _metric(name: str) -> Output:
    from genrec_unlearn_bench.evaluation.catalogue import metric_spec

    spec = metric_spec(name)
    record = next(record for record in records_of("metrics") if record["name"] == name)
    view = {field: record[field] for field in ("unit", "range", "level", "better", "source")}
    return card(f"{spec.name}: {spec.title}", {"kind": "metric", **record}, spec.description, view=view)


def _grid(place: str, data_dir: Path | None) -> Output:
    from genrec_unlearn_bench.grid.expand import expand, read_grid
    from genrec_unlearn_bench.grid.spec import find_grid

    spec = read_grid(place, data_dir)
    cells = expand(spec, data_dir=data_dir, results_dir=Path("results"), tuned_dir=Path("tuned"), device=None)
    axes = ("task", "backbone", "method", "seed")
    counts = {axis: dict(Counter(str(cell.axes[axis]) for cell in cells)) for axis in axes}
    fields = spec.model_dump(mode="json")
    content = {"kind": "grid", "file": str(find_grid(place)), "cells": len(cells), "counts": counts, "spec": fields}
    given = spec.model_dump(mode="json", exclude_unset=True)
    view = {
        # Tasks and methods out of files by their own names.
        "axes": given["axes"] | {axis: list(counts[axis]) for axis in ("task", "method")},
        "cells": [{"method": method, "cells": count} for method, count in counts["method"].items()],
        **{name: given.get(name) for name in ("settings", "resources", "vary", "exclude", "overrides", "cost")},
    }
    return card(f"{spec.name}: a grid of {len(cells)} cells", content, spec.description, view=view)


def _doc(found: object) -> str:
    return inspect.getdoc(inspect.getmodule(found)) or inspect.getdoc(found) or ""


def _fields(config: type[MethodConfig], space: SearchSpace) -> list[dict[str, Any]]:
    out = []
    for name, info in config.model_fields.items():
        default: Any = info.get_default(call_default_factory=True) if not info.is_required() else None
        default = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        doc = " ".join((info.description or "").split())
        out.append({"name": name, "default": default, "search": list(space.values.get(name, ())) or None, "doc": doc})
    return out
