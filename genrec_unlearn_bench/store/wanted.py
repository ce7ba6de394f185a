"""Which stages somebody still needs: those that results stand on, and those that today's code would ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.store.equal_code import code_digest
from genrec_unlearn_bench.store.inventory import Entry
from genrec_unlearn_bench.store.keys import CODE
from genrec_unlearn_bench.store.sources import PACKAGE, module_digest

__all__ = ["is_asked_for", "keys_of_grid", "keys_of_results"]


def keys_of_results(
    folders: Iterable[Path], wanted: Callable[[Mapping[str, Any]], bool] = lambda cell: True
) -> frozenset[str]:
    """Keys of all stages that the results below some folders were built from.

    Args:
        wanted: Of which cells (``RunRecord.cell``).

    Raises:
        DataMissing: A folder does not exist, or holds no such result; a mistyped name must not free everything.
        CorruptArtefact: A record cannot be read.
    """
    keys: set[str] = set()
    for folder in folders:
        found = 0
        for path in folder.rglob(RECORD) if folder.is_dir() else ():
            try:
                record = json.loads(path.read_bytes())
                if wanted(record["cell"]):
                    keys.update(stage["key"] for stage in record["stages"])
                    found += 1
            except (OSError, ValueError, KeyError, TypeError) as fault:
                raise CorruptArtefact(
                    f"the record cannot be read: {fault}", where=str(path), hint="restore or remove its folder"
                ) from None
        if not found:
            raise DataMissing(
                "there is no such result, so nothing would be kept for it",
                where=str(folder),
                hint="give the folder that bench run wrote to (--results-dir)",
            )
    return frozenset(keys)


def keys_of_grid(place: str, results_dir: Path) -> frozenset[str]:
    """Keys of all stages that the results of a grid's cells were built from.

    Args:
        place: A grid's file, or the name of a ready one.

    Raises as ``read_grid``, ``expand`` and ``keys_of_results`` do.
    """
    from genrec_unlearn_bench.grid.expand import expand
    from genrec_unlearn_bench.grid.spec import read_grid

    cells = expand(read_grid(place), data_dir=None, results_dir=results_dir, tuned_dir=Path("tuned"), device=None)
    asked = {_place(cell.request.model_dump()) for cell in cells}
    return keys_of_results([results_dir], lambda cell: _place(cell) in asked)


def _place(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """A cell's place on the axes, alike for requests and records; the scale is left out, as a request may name none."""
    fields = [cell.get(name) for name in ("task", "backbone", "method", "seed", "suite")]
    return (*fields, cell.get("ruleset", "default"), cell.get("requests", 1))


def is_asked_for(entry: Entry) -> bool:
    """Whether today's code could ask for a stage; keys of version 1 are asked for by records alone.

    A method outside the package counts as unchanged: its file is not known here.
    """
    if entry.is_old or entry.manifest is None:
        return False
    listing = entry.content().get(CODE)
    return not isinstance(listing, Mapping) or _is_todays(tuple(sorted(listing.items())))


@cache
def _is_todays(listing: tuple[tuple[str, str], ...]) -> bool:
    now = {
        module: (module_digest(module) or "") if module.startswith(f"{PACKAGE}.") else digest
        for module, digest in listing
    }
    return code_digest(now) == code_digest(dict(listing))
