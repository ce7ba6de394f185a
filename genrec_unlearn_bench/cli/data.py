"""``bench data``: prepare a dataset, import your own, see what is in one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import Card, handled, open_store, print_json, print_line, progressing, stdout
from genrec_unlearn_bench.cli.options import examples
from genrec_unlearn_bench.cli.show import dataset_card, is_local, manifest_sheet
from genrec_unlearn_bench.config import one_of

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.dataset import Dataset
    from genrec_unlearn_bench.data.spec import FormatName, SplitName

__all__ = ["app"]

app = typer.Typer(
    help="Prepare a dataset, import your own, see what is in one.",
    epilog=examples("bench data prepare demo", "bench data import my-shop --name my-shop"),
    no_args_is_help=True,
)


@app.command(
    "prepare", epilog=examples("bench data prepare demo", "bench data prepare industrial --data-dir data/industrial")
)
@handled
def prepare(
    name: Annotated[str, Argument(help="Dataset (bench ls datasets).")],
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Read, filter and split a dataset, and say what was dropped. Public files that are missing are downloaded."""
    _print(_prepared(name, data_dir, cache_dir), as_json=as_json)


@app.command("info", epilog=examples("bench data info demo", "bench data info steam --data-dir data --json"))
@handled
def info(
    name: Annotated[str, Argument(help="Dataset (bench ls datasets).")],
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Say what a dataset is, where its files are looked for, and, if they are there, what it holds."""
    from genrec_unlearn_bench.data.catalogue import find_dataset

    card = dataset_card(name, data_dir)
    there = is_local(find_dataset(name, data_dir), data_dir)
    found = _prepared(name, data_dir, cache_dir) if there else None
    if as_json:
        print_json({**card.content, "manifest": found.manifest.model_dump(mode="json") if found else None})
        return
    card.draw(stdout())
    if found:
        _print(found, as_json=False)


@app.command(
    "import",
    epilog=examples(
        "bench data import my-shop --name my-shop",
        "bench data import reviews --name shop --k-core 5 --split global-time",
    ),
)
@handled
def import_(
    folder: Annotated[Path, Argument(help="Folder with items.jsonl and interactions.tsv or sequences.tsv.")],
    name: Annotated[str, Option(help="What the dataset is to be called; its tasks are NAME-brand and so on.")],
    format_: Annotated[
        str, Option("--format", help="folder, minionerec, letter, amazon-2018 or amazon-2023.")
    ] = "folder",
    split: Annotated[
        str | None, Option(help="global-time or leave-one-out (default: by time where there are dates).")
    ] = None,
    k_core: Annotated[int, Option(help="Drop users and items with fewer interactions.", min=0)] = 0,
    title: Annotated[str | None, Option(help="A title for tables (default: the name).")] = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Check a folder from end to end and make it known as a dataset; the files stay where they are."""
    from typing import get_args

    from genrec_unlearn_bench.data.prepare import import_folder
    from genrec_unlearn_bench.data.spec import FormatName, SplitName

    format_name = cast("FormatName", one_of("format", format_, get_args(FormatName)))
    split_name = None if split is None else cast("SplitName", one_of("split", split, get_args(SplitName)))
    with progressing() as progress:
        spec, found = import_folder(
            folder, name, progress, format_name=format_name, split=split_name, k_core=k_core, title=title
        )
    _print(found, as_json=as_json)
    if not as_json:
        print_line(f"Imported. Try: bench run --task {spec.name}-brand --method tracer --data-dir {folder}")


def _prepared(name: str, data_dir: Path | None, cache_dir: Path | None) -> Dataset:
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.pipeline.stage import StageContext, materialise
    from genrec_unlearn_bench.pipeline.stages.data import dataset_stage

    with open_store(cache_dir) as (store, progress):
        context = StageContext(store, progress)
        stage = dataset_stage(find_dataset(name, data_dir), data_dir, progress)
        materialise(stage, context)
        found: Dataset = context.load(stage)
        return found


def _print(found: Dataset, *, as_json: bool) -> None:
    if as_json:
        print_json(found.manifest.model_dump(mode="json"))
        return
    Card(found.name, {}, sheets=(manifest_sheet(found),)).draw(stdout())
