"""``bench show``: everything known about one task, method, dataset, backbone, measurement, metric or grid."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import Card, Sheet, handled, open_store
from genrec_unlearn_bench.cli.ls import KINDS, listing
from genrec_unlearn_bench.errors import UnknownName

if TYPE_CHECKING:
    from pydantic import BaseModel

    from genrec_unlearn_bench.data.dataset import Dataset
    from genrec_unlearn_bench.data.spec import DatasetSpec
    from genrec_unlearn_bench.data.tasks import TaskSpec

__all__ = ["dataset_card", "is_local", "kind_of_file", "local_folder", "manifest_sheet", "show"]


@handled
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
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Show one thing: a task's concept and what it resolves to, a method's configuration, a metric's definition …"""
    from genrec_unlearn_bench.cli.grid_card import grid

    found = _kind_of(name, kind, data_dir)
    if found == "tasks":
        card = _task(name, data_dir, cache_dir)
    elif found in ("datasets", "grids"):
        card = {"datasets": dataset_card, "grids": grid}[found](name, data_dir)
    else:
        cards = {"methods": _method, "backbones": _backbone, "measurements": _measurement, "metrics": _metric}
        card = cards[found](name)
    card.show(as_json=as_json)


def _kind_of(name: str, kind: str | None, data_dir: Path | None) -> str:
    """The kind a name belongs to; the first where it belongs to several and none was requested."""
    if kind is not None:
        return listing(kind, data_dir).kind
    if name.endswith((".yaml", ".yml")):
        return kind_of_file(Path(name))
    if ".py" in name:
        return "methods"
    known: list[str] = []
    for candidate in KINDS:
        names = [row[0] for row in listing(candidate, data_dir).rows]
        if name in names:
            return candidate
        known += names
    from genrec_unlearn_bench.data.tasks import find_task

    try:
        # Tasks of imported datasets are not listed: there is one for each kind of concept.
        find_task(name, data_dir)
    except UnknownName:
        raise UnknownName("name", name, known) from None
    return "tasks"


def kind_of_file(path: Path) -> str:
    """``grids`` for a YAML file with axes, else ``tasks``, whose reader then names what is wrong with the file."""
    import yaml

    from genrec_unlearn_bench.config import plain_yaml

    try:
        content = plain_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return "tasks"
    return "grids" if isinstance(content, dict) and "axes" in content else "tasks"


def _task(name: str, data_dir: Path | None, cache_dir: Path | None) -> Card:
    """A task's fields, and what they resolve to where its data is on this machine."""
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.tasks import find_task

    spec = find_task(name, data_dir)
    source = find_dataset(spec.dataset, data_dir)
    content: dict[str, Any] = {"kind": "task", "spec": spec.model_dump(mode="json"), "manifest": None}
    fixed = [("version", str(spec.version)), ("dataset", spec.dataset), ("seed of the draw", str(spec.seed))]
    fixed += [(key, _text(value)) for key, value in spec.concept.model_dump(mode="json").items() if value is not None]
    sheets = [Sheet("What it fixes", tuple(fixed))]
    text = spec.description
    if is_local(source, data_dir):
        manifest, sheet = _resolved(spec, source, data_dir, cache_dir)
        content["manifest"] = manifest
        sheets.append(sheet)
    else:
        text += f"\n\nThe data of {spec.dataset!r} is not at hand, so what it resolves to is not shown (--data-dir)."
    return Card(f"{spec.name}: {spec.title}", content, text.strip(), tuple(sheets))


def _method(name: str) -> Card:
    """A method's docstring, requirements, configuration and variants."""
    from genrec_unlearn_bench.registry import find_method, load_class, source_digest
    from genrec_unlearn_bench.unlearning.method import UnlearningMethod

    entry = find_method(name)
    content: dict[str, Any] = {"kind": entry.kind, "name": entry.name, "digest": source_digest(entry)}
    if entry.kind == "reference":
        return Card(f"{entry.name}: a reference row", {**content, "doc": entry.summary}, entry.summary)
    found: type[UnlearningMethod[Any]] = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    doc = _doc(found)
    requires = sorted(found.requires)
    content |= {
        "doc": doc,
        "requires": requires,
        "source": str(entry.source or entry.target),
        "config": _fields(found.Config),
        "variants": {variant: dict(fields) for variant, fields in found.variants.items()},
        "fields": dict(entry.fields),
    }
    facts = [("requires", ", ".join(requires) or "nothing"), ("source", str(entry.source or entry.target))]
    if entry.variant_of:
        facts.insert(0, ("variant", entry.summary))
    sheets = [Sheet("", tuple(facts)), _config_sheet(content["config"])]
    if found.variants:
        changes = {
            each: ", ".join(f"{key}={value}" for key, value in set_.items()) for each, set_ in found.variants.items()
        }
        sheets.append(Sheet("Variants", tuple(changes.items()), ("name", "changes")))
    return Card(f"{entry.name}: a method", content, doc, tuple(sheets))


def dataset_card(name: str, data_dir: Path | None) -> Card:
    """A dataset's specification, and where its files were looked for."""
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.locate import candidate_folders

    spec = find_dataset(name, data_dir)
    folders = [str(folder) for folder in candidate_folders(spec, data_dir)] if spec.format != "demo" else []
    found = local_folder(spec, data_dir) if folders else None
    content = {
        "kind": "dataset",
        "spec": spec.model_dump(mode="json"),
        "looked_in": folders,
        "found_in": str(found) if found else None,
    }
    facts = [
        ("format", spec.format),
        ("split", spec.split),
        ("k-core", str(spec.k_core or "–")),
        ("item text", ", ".join(spec.text_fields)),
        ("terms", spec.terms),
        ("how to get it", spec.where),
        ("cite", ", ".join(citation.key for citation in spec.citations)),
        ("found in", str(found) if found else "generated" if not folders else "nowhere"),
        ("looked in", "\n".join(folders)),
    ]
    files = tuple((file.role, " or ".join(file.names), file.url or "no public address") for file in spec.files)
    sheets = [Sheet("", tuple((name, value) for name, value in facts if value))]
    if files:
        sheets.append(Sheet("Files", files, ("role", "name", "address")))
    return Card(f"{spec.name}: {spec.title}", content, "\n".join(spec.notes), tuple(sheets))


def _backbone(name: str) -> Card:
    """A backbone's docstring, capabilities and presets by scale."""
    from genrec_unlearn_bench.backbones.catalogue import load_backbone
    from genrec_unlearn_bench.backbones.config import Scale

    found = load_backbone(name)
    presets = {scale.value: found.presets[scale].model_dump(mode="json") for scale in Scale}
    sids = {scale.value: found.sid_presets[scale].model_dump(mode="json") for scale in Scale}
    flags = {scale.value: sorted(found.capabilities(found.presets[scale], found.sid_presets[scale])) for scale in Scale}
    content = {"kind": "backbone", "name": name, "doc": _doc(found), "capabilities": flags}
    content |= {"presets": presets, "sid_presets": sids}
    rows = tuple((scale, ", ".join(names) or "none") for scale, names in flags.items())
    sheets = (
        Sheet("Capabilities", rows, ("scale", "what methods may rely on")),
        _preset_sheet("Recommender (--set-backbone)", presets),
        _preset_sheet("SIDs (--set-sid)", sids),
    )
    return Card(f"{name}: a backbone", content, _doc(found), sheets)


def _doc(found: object) -> str:
    return inspect.getdoc(inspect.getmodule(found)) or inspect.getdoc(found) or ""


def _metric(name: str) -> Card:
    """A metric's declaration."""
    from genrec_unlearn_bench.evaluation.catalogue import metric_spec

    spec = metric_spec(name)
    low, high = spec.range
    facts = (
        ("unit", spec.unit),
        ("range", f"{low:g} to {high:g}"),
        ("level", spec.level.value),
        *((f"better, {group.value}", way.value) for group, way in spec.better.items()),
        ("source", spec.source),
    )
    record = next(record for record in listing("metrics").records if record["name"] == name)
    return Card(f"{spec.name}: {spec.title}", {"kind": "metric", **record}, spec.description, (Sheet("", facts),))


def _config_sheet(fields: list[dict[str, Any]]) -> Sheet:
    rows = tuple(
        (field["name"], _text(field["default"]), _text(field["search"]) if field["search"] else "–", field["doc"])
        for field in fields
    )
    columns = ("field", "default", "search", "what it is")
    return Sheet("Configuration", rows or (("nothing to set", "", "", ""),), columns)


def manifest_sheet(content: Dataset) -> Sheet:
    """Counts of a prepared dataset, and of what was dropped while it was read."""
    manifest = content.manifest
    rows = [
        ("items", f"{manifest.items} ({manifest.with_brand} with a brand, {manifest.with_price} with a price)"),
        ("users", str(manifest.users)),
        ("interactions", str(manifest.interactions)),
        ("examples", f"{manifest.train} train, {manifest.valid} validation, {manifest.test} test"),
        ("split", f"{manifest.split}, {manifest.k_core}-core" if manifest.k_core else manifest.split),
        *((f"dropped: {reason}", str(count)) for reason, count in manifest.dropped.items()),
        *(("file", f"{source.name} ({source.size} bytes, {source.digest})") for source in manifest.sources),
        ("digest", manifest.digest),
        *(("note", note) for note in manifest.notes),
    ]
    return Sheet(f"Dataset {manifest.name}", tuple(rows))


def _resolved(
    spec: TaskSpec, source: DatasetSpec, data_dir: Path | None, cache_dir: Path | None
) -> tuple[dict[str, Any], Sheet]:
    from genrec_unlearn_bench.pipeline.stage import StageContext, materialise
    from genrec_unlearn_bench.pipeline.stages.data import dataset_stage, task_stage

    with open_store(cache_dir) as (store, progress):
        context = StageContext(store, progress)
        task = task_stage(spec, dataset_stage(source, data_dir, progress))
        materialise(task, context)
        manifest = context.load(task).manifest
    missed = "" if manifest.within_tolerance else " (none within the tolerance: the nearest)"
    shown = list(manifest.concepts[:12]) + (["…"] if len(manifest.concepts) > 12 else [])
    rows = [
        ("concepts", f"{len(manifest.concepts)}: {', '.join(shown)}" if shown else "–"),
        ("forget items", str(len(manifest.forget_items))),
        ("forget interactions", str(len(manifest.forget_interactions))),
        ("share of train targets", f"{manifest.train_share:.2%}"),
        ("retain histories with concept", f"{manifest.retain_history_share:.2%}"),
        ("draws", f"{manifest.draws}{missed}"),
        *((name.replace("_", ", "), str(count)) for name, count in manifest.counts.items()),
        ("digest", manifest.digest),
    ]
    return manifest.model_dump(mode="json"), Sheet("What it resolves to", tuple(rows))


def _fields(model: type[BaseModel]) -> list[dict[str, Any]]:
    from pydantic import BaseModel

    out = []
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        default: Any = info.get_default(call_default_factory=True) if not info.is_required() else None
        default = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        doc = " ".join((info.description or "").split())
        out.append({"name": name, "default": default, "search": extra.get("search"), "doc": doc})
    return out


def _preset_sheet(title: str, presets: dict[str, dict[str, Any]]) -> Sheet:
    """Presets by scale as columns; names of nested fields with dots."""
    flat = {scale: dict(_flat(preset)) for scale, preset in presets.items()}
    names = list(dict.fromkeys(name for preset in flat.values() for name in preset))
    rows = tuple((name, *(_text(preset.get(name)) for preset in flat.values())) for name in names)
    return Sheet(title, rows, ("field", *presets))


def _flat(content: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    out = []
    for name, value in content.items():
        place = f"{above}{name}"
        out += _flat(value, f"{place}.") if isinstance(value, dict) else [(place, value)]
    return out


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _measurement(name: str) -> Card:
    """A measurement of the full suite: docstring, configurations by scale and metrics."""
    from genrec_unlearn_bench.backbones.config import Scale
    from genrec_unlearn_bench.evaluation.suites import find_measurement

    found = find_measurement(name)
    presets = {scale.value: found.config(scale.value).model_dump(mode="json") for scale in Scale}
    models = ["the run", "the original", "every oracle" if found.oracles == 0 else "the first oracle"]
    models += ["a model with random weights"] if found.untrained else []
    content = {"kind": "measurement", "name": name, "doc": _doc(found), "models": models, "presets": presets}
    content["metrics"] = [spec.name for spec in found.specs]
    metrics = tuple((spec.name, spec.title, spec.description) for spec in found.specs)
    sheets = (
        Sheet("", (("taken of", ", ".join(models)), ("suite", "full"))),
        _preset_sheet(f"Configuration (--set-measure {name}.FIELD=VALUE)", presets),
        Sheet("Metrics", metrics, ("metric", "title", "what it is")),
    )
    return Card(f"{name}: a measurement", content, _doc(found), sheets)


def local_folder(spec: DatasetSpec, data_dir: Path | None) -> Path | None:
    """The first folder that holds every file of the dataset, or None."""
    from genrec_unlearn_bench.data.locate import candidate_folders

    for folder in candidate_folders(spec, data_dir):
        if all(any((folder / name).is_file() for name in file.names) for file in spec.files):
            return folder
    return None


def is_local(spec: DatasetSpec, data_dir: Path | None) -> bool:
    """Whether the dataset can be prepared without the network."""
    return spec.format == "demo" or local_folder(spec, data_dir) is not None
