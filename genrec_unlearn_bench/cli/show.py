"""``bench show``: everything known about one task, method, dataset, backbone, measurement, metric or grid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.listing import KINDS, listing
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug
from genrec_unlearn_bench.errors import UnknownName

__all__ = ["kind_of_file", "show"]


@handled
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of anything that bench ls lists, or path/to/method.py:Class, or a task's or grid's file."
        ),
    ],
    kind: Annotated[
        str | None, typer.Option(help="task, method, dataset …, where a name means several things (kinds: bench ls).")
    ] = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show one thing: a task's concept and what it resolves to, a method's configuration, a metric's definition …"""
    from genrec_unlearn_bench.cli import descriptions, grid_card, measurement_card

    found = _kind_of(name, kind, data_dir)
    if found == "tasks":
        card = descriptions.task(name, data_dir, cache_dir)
    elif found == "methods":
        card = descriptions.method(name)
    elif found == "datasets":
        card = descriptions.dataset(name, data_dir)
    elif found == "backbones":
        card = descriptions.backbone(name)
    elif found == "grids":
        card = grid_card.grid(name, data_dir)
    elif found == "measurements":
        card = measurement_card.measurement(name)
    else:
        card = descriptions.metric(name)
    if as_json:
        print_json(card.content)
        return
    card.draw(stdout())


def _kind_of(name: str, kind: str | None, data_dir: Path | None) -> str:
    """The kind a name belongs to; the first where it belongs to several and none was asked for."""
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
    if _imported_task(name, data_dir):
        return "tasks"
    raise UnknownName("name", name, known)


def kind_of_file(path: Path) -> str:
    """A grid has axes; whatever is no YAML is told as a task that cannot be read."""
    import yaml

    from genrec_unlearn_bench.config import plain_yaml

    try:
        content = plain_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return "tasks"
    return "grids" if isinstance(content, dict) and "axes" in content else "tasks"


def _imported_task(name: str, data_dir: Path | None) -> bool:
    """Tasks of imported datasets are not listed: there is one for each kind of concept."""
    from genrec_unlearn_bench.data.tasks import find_task

    try:
        find_task(name, data_dir)
    except UnknownName:
        return False
    return True
