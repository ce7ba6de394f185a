"""``bench data``: prepare a dataset, import your own, see what is in one, and what its semantic IDs are like."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card
from genrec_unlearn_bench.cli.show import dataset_card
from genrec_unlearn_bench.config import one_of, overrides
from genrec_unlearn_bench.data.catalogue import SplitName, TableMapping, find_dataset, read_yaml
from genrec_unlearn_bench.data.formats import FormatName
from genrec_unlearn_bench.data.locate import is_local
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import open_store, progressing

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.dataset import Dataset

Name = Annotated[str, Argument(help="Dataset (bench ls datasets).")]


def prepare(name: Name, data_dir: options.DataDir = None, cache_dir: options.CacheDir = None) -> Output:
    """Read, filter and split a dataset, and say what was dropped. Public files that are missing are downloaded."""
    return _card(_prepared(name, data_dir, cache_dir))


def info(name: Name, data_dir: options.DataDir = None, cache_dir: options.CacheDir = None) -> Output:
    """Say what a dataset is, where its files are looked for, and, if they are there, what it holds."""
    shown = dataset_card(name, data_dir)
    if not is_local(find_dataset(name, data_dir), data_dir):
        return Output({**shown.content, "manifest": None}, shown.parts)
    found = _card(_prepared(name, data_dir, cache_dir))
    return Output({**shown.content, "manifest": found.content}, [*shown.parts, *found.parts])


def import_(
    folder: Annotated[Path, Argument(help="Folder with the files (docs/own-data.md).")],
    name: Annotated[str, Option(help="What the dataset is to be called; its tasks are NAME-brand and so on.")],
    format_: Annotated[
        str | None,
        Option("--format", help="folder, table, recbole, minionerec, letter, amazon-2018 (default: table with --map)."),
    ] = None,
    split: Annotated[str | None, Option(help="global-time or leave-one-out (default: by time if dated).")] = None,
    k_core: Annotated[
        int | None, Option(help="Drop users and items with fewer interactions (default: 0).", min=0)
    ] = None,
    title: Annotated[str | None, Option(help="A title for tables (default: the name).")] = None,
    map_: Annotated[
        Path | None, Option("--map", help="YAML: which column of a table is which field (docs/own-data.md).")
    ] = None,
) -> Output:
    """Check a folder from end to end and make it known as a dataset; the files stay where they are.

    What no option names is taken from a dataset.yaml of that name in the folder, as after moving it.
    """
    from genrec_unlearn_bench.data.prepare import import_folder

    formats = [name for name in get_args(FormatName) if name != "demo"]
    format_name = None if format_ is None else cast("FormatName", one_of("format", format_, formats))
    split_name = None if split is None else cast("SplitName", one_of("split", split, get_args(SplitName)))
    with progressing() as progress:
        spec, found = import_folder(
            folder,
            name,
            progress,
            format_name=format_name,
            split=split_name,
            k_core=k_core,
            title=title,
            mapping=None if map_ is None else read_yaml(TableMapping, map_),
        )
    shown = _card(found)
    kind = "brand" if found.manifest.with_brand else "price" if found.manifest.with_price else "item"
    words = ["bench", "run", "--task", f"{spec.name}-{kind}", "--method", "tracer"]
    if found.items.plain_text(spec.text_fields) == list(found.items.ids):
        # Without texts there is nothing to make semantic IDs from but interactions; a file of them has no codebooks.
        index = [str(folder / file.names[0]) for file in spec.files if file.role == "index"]
        words += ["--backbone", "etegrec"] if not index else []
        words[-1:] = ["tracer-no-reassignment", "--sids", *index] if index else words[-1:]
    return Output(shown.content, [*shown.parts, f"Imported. Try: {shlex.join(words)}"])


def export(
    task: options.Task,
    out: Annotated[Path, Option(help="Folder to write; an earlier export there gives way.")],
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Write a task's examples and items as parquet, with a card; `datasets.load_dataset` reads the folder."""
    from genrec_unlearn_bench.data.frames import Task, export_task
    from genrec_unlearn_bench.pipeline.stage import StageContext
    from genrec_unlearn_bench.pipeline.stages.data import dataset_stage, task_stage

    if out.exists() and any(out.iterdir()) and not (out / "items.parquet").is_file():
        raise UsageError(f"{out} is not empty and holds no export", hint="give a new folder")
    spec = find_task(task, data_dir)
    source = find_dataset(spec.dataset, data_dir)
    with open_store(cache_dir) as (store, progress):
        context = StageContext(store, progress)
        stage = dataset_stage(source, data_dir, progress)
        found = Task(spec, context.load(stage), context.load(task_stage(spec, stage)))
        rows = export_task(source, found, out)
    return card(f"{spec.name} in {out}", rows, view=rows)


def _prepared(name: str, data_dir: Path | None, cache_dir: Path | None) -> Dataset:
    from genrec_unlearn_bench.pipeline.stages.data import load_prepared

    with open_store(cache_dir) as (store, progress):
        return load_prepared(find_dataset(name, data_dir), data_dir, store, progress)


def _card(found: Dataset) -> Output:
    manifest = found.manifest.model_dump(mode="json")
    return card(found.name, manifest, view=manifest)


def sids(
    task: options.Task,
    backbone: options.Backbone = "tiger",
    scale: options.Scale = None,
    data_dir: options.DataDir = None,
    sids: options.Sids = None,
    encoder: options.Encoder = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    set_sid: options.SetSid = None,
    served: Annotated[bool, Option("--served", help="The IDs the original serves with; may train it.")] = False,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Make a task's semantic IDs, or read them from the cache, and report on them.

    Codes used and their perplexity by level, collisions, quantisation error, and how far prefixes coincide with brands,
    categories and the task's concept.
    """
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.run import sid_health

    request = RunRequest(
        task=task,
        method="original",
        backbone=backbone,
        scale=scale,
        data_dir=data_dir,
        sids=sids,
        encoder=encoder,
        device=device,
        threads=threads,
        sid_set=overrides(set_sid or [], where="--set-sid"),
    )
    with open_store(cache_dir) as (store, progress):
        found = sid_health(request, store, progress, served=served)
    content = found.model_dump(mode="json")
    collisions = {"on the codebooks' levels": content["quantised_collisions"], "on whole IDs": content["collisions"]}
    view = {"levels": content["levels"], "collisions": collisions, "prefixes": content["prefixes"]}
    return card(f"Semantic IDs of {task}: {found.items} items", content, view=view)
