"""Tables that figures are drawn from, as text or numbers by row and seed: of measurements, and of records.

In the table of a measurement the column ``model`` says which model a line is of: the run itself, or one that it is
compared with. So the curves of the original and the oracle are known wherever a method was measured.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.model import FLOOR_LABEL
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


def overlap_table(block: Block, protocol: StatisticsProtocol) -> pd.DataFrame | None:
    """Token overlap in the records of the original and of methods that changed semantic IDs, with the columns
    ``label``, ``seed``, ``metric``, ``level`` (of ``overlap.level``) and ``value``. None where no method did."""
    import pandas as pd

    rows = [
        (row.label, seed, measure.metric, value)
        for measure in block.measures
        if measure.group is Group.ALL and measure.metric.startswith("overlap")
        for row, values in zip(block.rows, block.values(measure), strict=True)
        for seed, value in zip(block.seeds, values, strict=True)
        if math.isfinite(value)
    ]
    table = pd.DataFrame(rows, columns=["label", "seed", "metric", "value"])
    change = table["metric"].str.startswith("overlap-change.") & (table["metric"] != "overlap-change.lift")
    moved = set(table[change & (table["value"] != 0.0)]["label"])
    level = table["metric"].str.extract(r"^overlap\.level(\d+)$", expand=False).fillna("")
    table = table.assign(level=level, metric=table["metric"].mask(level != "", "overlap.level"))
    return table[table["label"].isin({protocol.baseline, *moved})] if moved else None
