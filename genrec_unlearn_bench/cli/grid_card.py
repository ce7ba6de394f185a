"""What ``bench show`` says about a grid: its axes, how many cells it has of what, what it leaves out and changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.cli.console import Card, Sheet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from genrec_unlearn_bench.grid.expand import GridCell
    from genrec_unlearn_bench.grid.spec import GridSpec

__all__ = ["grid"]

LONGEST = 12
"""Values of an axis that are written out."""


def grid(place: str, data_dir: Path | None) -> Card:
    """A grid that ships, or one in a file. Raises ConfigError with all that is wrong with it."""
    from genrec_unlearn_bench.grid.expand import expand
    from genrec_unlearn_bench.grid.grid_file import find_grid
    from genrec_unlearn_bench.grid.spec import read_grid

    spec = read_grid(place, data_dir)
    cells = expand(spec, data_dir=data_dir, results_dir=Path("results"), tuned_dir=Path("tuned"), device=None)
    counts = {
        axis: dict(Counter(str(cell.axes[axis]) for cell in cells)) for axis in ("task", "backbone", "method", "seed")
    }
    content = {
        "kind": "grid",
        "file": str(find_grid(place)),
        "cells": len(cells),
        "counts": counts,
        "spec": spec.model_dump(mode="json"),
    }
    settings = _flat({**_given(spec.settings), "resources": _given(spec.resources)})
    varied = [(_where(block.where) or "all cells", _where(block.fields)) for block in spec.vary]
    excluded = [(_where(entry.where), entry.why) for entry in spec.exclude]
    changed = []
    for entry in spec.overrides:
        changes = ", ".join(f"{name}={value}" for name, value in _flat(_given(entry.set)))
        changed.append((_where(entry.where), f"{changes}. {entry.why}" if entry.why else changes))
    sheets = [Sheet("Axes", _axes(spec, cells), ("axis", "values")), _by_backbone(cells)]
    titles = ("Settings", "Varied", "Left out", "Changed for some (later ones win)")
    for title, rows in zip(titles, (settings, varied, excluded, changed), strict=True):
        sheets += [Sheet(title, tuple(rows))] if rows else []
    text = spec.description + (f"\n\nCost: {spec.cost}" if spec.cost else "")
    return Card(f"{spec.name}: a grid of {len(cells)} cells", content, text, tuple(sheets))


def _axes(spec: GridSpec, cells: Sequence[GridCell]) -> tuple[tuple[str, str], ...]:
    shown = []
    # An axis that nobody wrote has one value, the default.
    for name, values in _given(spec.axes).items():
        # Tasks and methods out of files by their own names.
        named = (cell.axes[name] for cell in cells) if name in ("task", "method") else values
        texts = list(dict.fromkeys(map(str, named)))
        shown.append((name, f"{len(texts)}: {_listed(texts)}" if len(texts) > 1 else texts[0]))
    return tuple(shown)


def _by_backbone(cells: Sequence[GridCell]) -> Sheet:
    """Cells by method and backbone; a dot where there are none."""
    counts = Counter((str(cell.axes["method"]), str(cell.axes["backbone"])) for cell in cells)
    methods, backbones = (list(dict.fromkeys(pair[place] for pair in counts)) for place in (0, 1))
    rows = [(method, *(str(counts[method, one] or "·") for one in backbones)) for method in methods]
    rows.append(("all", *(str(sum(counts[method, one] for method in methods)) for one in backbones)))
    return Sheet("Cells by method and backbone", tuple(rows), ("method", *backbones))


def _given(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(exclude_unset=True)


def _where(where: Mapping[str, Sequence[Any]]) -> str:
    return "; ".join(f"{name}: {_listed(values)}" for name, values in where.items())


def _listed(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values]
    return ", ".join(texts if len(texts) <= LONGEST else [*texts[:LONGEST], "…"])


def _flat(content: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for name, value in content.items():
        out += _flat(value, f"{above}{name}.") if isinstance(value, dict) else [(f"{above}{name}", str(value))]
    return out
