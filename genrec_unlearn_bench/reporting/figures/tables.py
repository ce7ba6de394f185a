"""Tables that figures are drawn from, as text or numbers by row and seed: of measurements, and of records.

In the table of a measurement the column ``model`` says which model a line is of: the run itself, or one that it is
compared with. So the curves of the original and the oracle are known wherever a method was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.model import FLOOR_LABEL
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

if TYPE_CHECKING:
    import pandas as pd

OWN = "run"
AGAIN = "run that cell again (bench run)"


def read_tables(block: Block, name: str, protocol: StatisticsProtocol) -> pd.DataFrame | None:
    """A measurement's tables of all runs of a block as text, with the columns ``label`` and ``seed``; None where no
    run has one. What a row's own result says of it comes before what the results of others say.

    Raises CorruptArtefact for a table that cannot be read.
    """
    import pandas as pd

    frames: list[pd.DataFrame] = []
    for row in block.rows:
        labels = {OWN: row.label, "original": protocol.baseline, "retrain": protocol.oracle, "untrained": FLOOR_LABEL}
        for seed, result in row.results.items():
            path = result.folder / MEASUREMENTS / f"{name}.csv"
            if not path.is_file():
                continue
            try:
                frame = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
            except (OSError, ValueError) as fault:
                what = f"the table of a measurement cannot be read: {fault}"
                raise CorruptArtefact(what, where=str(path), hint=AGAIN) from None
            # A table of a stream has one model alone and need not name it.
            frame = frame if "model" in frame else frame.assign(model=OWN)
            # Any table of others comes after every row's own.
            rank = len(frames) + (frame["model"] != OWN) * len(block.rows) * len(block.seeds)
            frames.append(frame.assign(label=frame["model"].map(labels), seed=seed, rank=rank))
    if not frames:
        return None
    whole = pd.concat(frames, ignore_index=True).dropna(subset="label").fillna("")
    return whole[whole["rank"] == whole.groupby(["label", "seed"])["rank"].transform("min")]


def record_table(block: Block, measures: Iterable[Measure]) -> pd.DataFrame:
    """Numbers of a block's records, with the columns ``label``, ``seed``, ``measure``, ``metric`` and ``value``."""
    import pandas as pd

    rows = [
        (row.label, seed, measure.text, measure.metric, value)
        for measure in measures
        for row, values in zip(block.rows, block.values(measure), strict=True)
        for seed, value in zip(block.seeds, values, strict=True)
        if math.isfinite(value)
    ]
    return pd.DataFrame(rows, columns=["label", "seed", "measure", "metric", "value"])


def overlap_table(block: Block, protocol: StatisticsProtocol) -> pd.DataFrame | None:
    """Token overlap of the original and of the methods that changed semantic IDs; ``overlap.level`` has the column
    ``level``. None where no method did."""
    overlap = [one for one in block.measures if one.group is Group.ALL and one.metric.startswith("overlap")]
    table = record_table(block, overlap)
    change = table["metric"].str.startswith("overlap-change.") & (table["metric"] != "overlap-change.lift")
    moved = set(table[change & (table["value"] != 0.0)]["label"])
    level = table["metric"].str.extract(r"^overlap\.level(\d+)$", expand=False).fillna("")
    table = table.assign(level=level, metric=table["metric"].mask(level != "", "overlap.level"))
    return table[table["label"].isin({protocol.baseline, *moved})] if moved else None


@dataclass(frozen=True)
class Sweep:
    """Rows of one method that differ in one field: its value by label, ascending.

    ``label``: the method, with what these rows share and other sweeps of that field do not.
    """

    method: str
    field: str
    label: str
    values: Mapping[str, float]


def find_sweeps(rows: Sequence[Row]) -> list[Sweep]:
    """Every set of two and more rows of one method and source whose configurations differ in one numeric field."""
    groups: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        config = json.loads(row.first.method_config)
        for field, value in config.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = {name: other for name, other in config.items() if name != field}
                rest |= {"by": row.first.source.name} if row.first.source.name else {}
                same = groups.setdefault((row.method, field), {}).setdefault(json.dumps(rest, sort_keys=True), {})
                same[row.label] = float(value)
    out = []
    for (method, field), found in sorted(groups.items()):
        swept = [(json.loads(rest), values) for rest, values in found.items() if len(values) > 1]
        for rest, values in swept:
            apart = [name for name in rest if any(other.get(name) != rest[name] for other, _ in swept)]
            others = ", ".join(f"{name}={rest[name]}" for name in apart)
            label = f"{method} ({others})" if others else method
            out.append(Sweep(method, field, label, dict(sorted(values.items(), key=lambda pair: pair[1]))))
    return out
