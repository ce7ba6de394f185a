"""Results as a data frame, one row a measured value (tidy) or one row a cell (wide)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.files import write_outputs
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.results import CELL_COLUMNS, Result

if TYPE_CHECKING:
    import pandas as pd

VALUE_COLUMNS = ("metric", "group", "beam", "value", "n", "better")
RECORD_COLUMNS = ("diverged", "submission", "badge", "key", "created", "suite_version", "protocol_version", "folder")
COLUMNS = (*CELL_COLUMNS, *VALUE_COLUMNS, *RECORD_COLUMNS)
"""Columns of a tidy frame, of which key, metric, group and beam are unique. ``backbone`` is the name that tables show,
``better`` higher, lower, oracle (nearer to the retrained model) or none, ``n`` the number of examples or items,
``folder`` where the record lies."""

_CARD = """---
configs:
- config_name: default
  data_files: results.parquet
---
# Results of genrec_unlearn_bench

A row a cell and metric, of {cells} cells under protocol {protocol}. Tasks: {tasks}. Methods: {methods}.

- `task` … `requests`: the cell; `key`: its record, `created` and `suite_version`: when and by what it was made
- `metric`, `group` (whose test examples), `beam` (width of the search; empty where there is none)
- `value`: empty where it could not be measured; `n`: the number of examples or items behind it
- `better`: higher, lower, oracle (nearer to the retrained model) or none
- `diverged`: whether weights or losses were not finite; `submission`, `badge`: who published it, and what was checked
"""

OneOrMore = str | int | Sequence[str] | Sequence[int]


class Filters(TypedDict, total=False):
    """Columns of which only some values are kept; names may be globs (``sports-*``)."""

    task: OneOrMore
    backbone: OneOrMore
    method: OneOrMore
    seed: OneOrMore
    scale: OneOrMore
    suite: OneOrMore
    ruleset: OneOrMore
    requests: OneOrMore


def results_frame(results: Iterable[Result], *, wide: bool = False) -> pd.DataFrame:
    """Results as a data frame with the columns ``COLUMNS``; values that could not be measured are NaN.

    Args:
        wide: One row a cell instead; measures are columns (``forget:hr@10/10``: group, metric and beam).
    """
    import pandas as pd

    rows: list[Any] = []
    for result in results:
        cell = [result.backbone_label if name == "backbone" else getattr(result, name) for name in CELL_COLUMNS]
        record = [getattr(result, name) for name in ("key", "created", "suite_version", "protocol_version")]
        record = [result.diverged, result.source.name, result.source.badge_text, *record, str(result.folder.absolute())]
        if wide:
            values = {measure.text: value for measure, value in result.values.items()}
            rows.append(dict(zip((*CELL_COLUMNS, *RECORD_COLUMNS), (*cell, *record), strict=True)) | values)
            continue
        for measure, value in result.values.items():
            n = result.examples.get(measure)
            rows.append((*cell, measure.metric, measure.group.value, measure.beam, value, n, _better(measure), *record))
    if wide:
        found = pd.DataFrame(rows)
        measured = [name for name in found.columns if name not in (*CELL_COLUMNS, *RECORD_COLUMNS)]
        return found.astype(dict.fromkeys(measured, float))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"beam": "Int64", "n": "Int64", "value": float})


def write_parquet(results: Sequence[Result], folder: Path) -> int:
    """Write the tidy frame as ``results.parquet``, without the column ``folder``, and a README.md that describes it;
    ``datasets.load_dataset`` reads the folder. Returns the number of rows; raises StorageError.
    """
    frame = results_frame(results).drop(columns="folder")
    tasks, methods = (sorted(set(frame[name])) for name in ("task", "method"))
    card = _CARD.format(
        cells=len(results), tasks=", ".join(tasks), methods=", ".join(methods), protocol=results[0].protocol_version
    )
    files = {folder / "results.parquet": frame.to_parquet(index=False), folder / "README.md": card.encode("utf-8")}
    write_outputs(files, folder, "--out")
    return len(frame)


@cache
def _better(measure: Measure) -> str:
    try:
        return measure.better.value
    except UnknownName:
        # A metric of another version of the suite.
        return "none"
