"""Names that tables in papers print in place of ids, from ``leaderboard/titles.yaml``; an id without one stays.

What follows a name in brackets, which tells it from others of that name, stays as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import yaml

from genrec_unlearn_bench.reporting.selection import variants


def task_title(task: str) -> str:
    """``Industrial, brand`` for ``industrial-brand``."""
    name, bracket, rest = task.partition(" (")
    dataset, _, kind = name.rpartition("-")
    known = _titles()["datasets"]
    shown = f"{known[dataset]}, {kind}" if dataset in known else name
    return shown + bracket + rest


def backbone_title(backbone: str) -> str:
    """``TIGER`` for ``tiger``."""
    name, bracket, rest = backbone.partition(" (")
    return _titles()["backbones"].get(name, name) + bracket + rest


def row_title(label: str) -> str:
    """``NPO, slow`` for the variant ``npo-slow``."""
    name, bracket, rest = label.partition(" (")
    known = _titles()["methods"]
    parent = _variants().get(name, "")
    if parent in known and name.startswith(parent) and name not in known:
        variant = name.removeprefix(parent)
        shown = known[parent] + (f", {variant[1:].replace('-', ' ')}" if variant.startswith("-") else variant)
    else:
        shown = known.get(name, name)
    return shown + bracket + rest


def declared_controls() -> frozenset[str]:
    """Rows that count as controls although no method's source says so."""
    return frozenset(_titles()["controls"])


@cache
def _titles() -> Mapping[str, Mapping[str, str]]:
    file = resources.files("genrec_unlearn_bench.leaderboard") / "titles.yaml"
    content: Mapping[str, Mapping[str, str]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


_variants = cache(variants)
