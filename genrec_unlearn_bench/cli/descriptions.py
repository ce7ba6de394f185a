"""What ``bench show`` says about each kind of thing, as JSON and as tables."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.cli.at_hand import folder_at_hand, is_at_hand

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from genrec_unlearn_bench.data.dataset import Dataset
    from genrec_unlearn_bench.data.spec import DatasetSpec
    from genrec_unlearn_bench.data.task_spec import TaskSpec

__all__ = [
    "Card",
    "Sheet",
    "backbone",
    "config_sheet",
    "dataset",
    "manifest_sheet",
    "method",
    "metric",
    "side_by_side",
    "task",
]


@dataclass(frozen=True)
class Sheet:
    """One table of a card; the first column is never wrapped."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """What there is to say about one thing."""

    title: str
    content: dict[str, Any]
    text: str = ""
    sheets: tuple[Sheet, ...] = field(default=())

    def draw(self, console: Console) -> None:
        """Print it."""
        from rich import box
        from rich.table import Table

        console.print(self.title, style="bold")
        if self.text:
            console.print(f"\n{flowing(self.text)}")
        for sheet in self.sheets:
            table = Table(
                title=sheet.title or None,
                title_justify="left",
                box=box.SIMPLE_HEAD if sheet.columns else box.SIMPLE,
                show_header=bool(sheet.columns),
                padding=(0, 1),
            )
            for index in range(len(sheet.rows[0]) if sheet.rows else 0):
                table.add_column(sheet.columns[index] if sheet.columns else "", no_wrap=index == 0, overflow="fold")
            for row in sheet.rows:
                table.add_row(*row)
            console.print(table)


def task(name: str, data_dir: Path | None, cache_dir: Path | None) -> Card:
    """A task: what it fixes, and what it resolves to where its data is at hand."""
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.tasks import find_task

    spec = find_task(name, data_dir)
    source = find_dataset(spec.dataset, data_dir)
    content: dict[str, Any] = {"kind": "task", "spec": spec.model_dump(mode="json"), "manifest": None}
    fixed = [("version", str(spec.version)), ("dataset", spec.dataset), ("seed of the draw", str(spec.seed))]
    fixed += [(key, _text(value)) for key, value in spec.concept.model_dump(mode="json").items() if value is not None]
    sheets = [Sheet("What it fixes", tuple(fixed))]
    text = spec.description
    if is_at_hand(source, data_dir):
        manifest, sheet = _resolved(spec, source, data_dir, cache_dir)
        content["manifest"] = manifest
        sheets.append(sheet)
    else:
        text += f"\n\nThe data of {spec.dataset!r} is not at hand, so what it resolves to is not shown (--data-dir)."
    return Card(f"{spec.name}: {spec.title}", content, text.strip(), tuple(sheets))


def method(name: str) -> Card:
    """A method: its account of itself and its configuration."""
    from genrec_unlearn_bench.registry import find_method, load_class, source_digest
    from genrec_unlearn_bench.unlearning.method import UnlearningMethod

    entry = find_method(name)
    content: dict[str, Any] = {"kind": entry.kind, "name": entry.name, "digest": source_digest(entry)}
    if entry.kind == "reference":
        return Card(f"{entry.name}: a reference row", {**content, "doc": entry.summary}, entry.summary)
    found: type[UnlearningMethod[Any]] = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    module = inspect.getmodule(found)
    doc = inspect.getdoc(module) or inspect.getdoc(found) or ""
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
    sheets = [Sheet("", tuple(facts)), config_sheet("Configuration", found.Config)]
    if found.variants:
        rows = tuple(
            (name, ", ".join(f"{k}={v}" for k, v in fields.items())) for name, fields in found.variants.items()
        )
        sheets.append(Sheet("Variants", rows, ("name", "changes")))
    return Card(f"{entry.name}: a method", content, doc, tuple(sheets))


def dataset(name: str, data_dir: Path | None) -> Card:
    """A dataset: its specification, and where its files were looked for."""
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.locate import candidate_folders

    spec = find_dataset(name, data_dir)
    folders = [str(folder) for folder in candidate_folders(spec, data_dir)] if spec.format != "demo" else []
    found = folder_at_hand(spec, data_dir) if folders else None
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


def backbone(name: str) -> Card:
    """A backbone: its account of itself and its presets side by side."""
    from genrec_unlearn_bench.backbones.backbone import Scale
    from genrec_unlearn_bench.backbones.catalogue import load_backbone

    found = load_backbone(name)
    doc = inspect.getdoc(inspect.getmodule(found)) or inspect.getdoc(found) or ""
    presets = {scale.value: found.preset(scale).model_dump(mode="json") for scale in Scale}
    sids = {scale.value: found.sid_preset(scale).model_dump(mode="json") for scale in Scale}
    flags = {scale.value: found.capabilities(found.preset(scale), found.sid_preset(scale)) for scale in Scale}
    content = {
        "kind": "backbone",
        "name": name,
        "doc": doc,
        "capabilities": {name: sorted(flags) for name, flags in flags.items()},
        "presets": presets,
        "sid_presets": sids,
    }
    rows = tuple((name, ", ".join(sorted(found)) or "none") for name, found in flags.items())
    facts = Sheet("Capabilities", rows, ("scale", "what methods may rely on"))
    sheets = (facts, side_by_side("Recommender (--set-backbone)", presets), side_by_side("SIDs (--set-sid)", sids))
    return Card(f"{name}: a backbone", content, doc, sheets)


def metric(name: str) -> Card:
    """A metric's declaration."""
    from genrec_unlearn_bench.cli.listing import listing
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


def config_sheet(title: str, model: type[BaseModel]) -> Sheet:
    """A configuration: every field with its default, its values for tuning and its one line of documentation."""
    rows = tuple(
        (field["name"], _text(field["default"]), _text(field["search"]) if field["search"] else "–", field["doc"])
        for field in _fields(model)
    )
    return Sheet(title, rows or (("nothing to set", "", "", ""),), ("field", "default", "search", "what it is"))


def manifest_sheet(content: Dataset) -> Sheet:
    """What a prepared dataset holds and what was dropped on the way."""
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
    from genrec_unlearn_bench.cli.console import progressing
    from genrec_unlearn_bench.pipeline.ground import prepared_dataset, resolved_task
    from genrec_unlearn_bench.pipeline.workroom import Desk
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    with progressing() as progress:
        desk = Desk(StageStore(cache_dir or default_cache(), progress), progress)
        prepared = prepared_dataset(desk, source, data_dir)[1]
        manifest = resolved_task(desk, spec, prepared).manifest
    shown = list(manifest.concepts[:12]) + (["…"] if len(manifest.concepts) > 12 else [])
    rows = [
        ("concepts", f"{len(manifest.concepts)}: {', '.join(shown)}" if shown else "–"),
        ("forget items", str(len(manifest.forget_items))),
        ("forget interactions", str(len(manifest.forget_interactions))),
        ("share of train targets", f"{manifest.train_share:.2%}"),
        ("retain histories with concept", f"{manifest.retain_history_share:.2%}"),
        (
            "draws",
            f"{manifest.draws}{'' if manifest.within_tolerance else ' (none within the tolerance: the nearest)'}",
        ),
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
        out.append(
            {
                "name": name,
                "default": default.model_dump(mode="json") if isinstance(default, BaseModel) else default,
                "search": extra.get("search"),
                "doc": " ".join((info.description or "").split()),
            }
        )
    return out


def side_by_side(title: str, presets: dict[str, dict[str, Any]]) -> Sheet:
    """Presets of the scales as columns, nested fields with dots."""
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


def flowing(text: str) -> str:
    """Prose with its source's line breaks taken out, so that the terminal breaks it; lists and code keep theirs."""
    return "\n\n".join(_joined(paragraph) for paragraph in text.strip().split("\n\n"))


def _joined(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if any(line.startswith((" ", "-", "*", "|", ">")) for line in lines):
        return paragraph
    return " ".join(lines)
