"""Is a table somebody's else, or another seed's: hit ranks compared inside the bundle and with everything published.

Two trainings never give the same lists throughout. Of 330 published tables (small and smoke scale, five backbones), two
seeds of one row agree in at most .44 of their hit ranks, .30 for unlearned rows; two methods that are no ablation of
each other, on one original of one seed, agree in at most .71 of the ranks in which either differs from that original.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.faults import Finding, Refused
from genrec_unlearn_bench.submissions.table import read_table

if TYPE_CHECKING:
    import pandas as pd

Ranks = NDArray[np.int16]
"""[M] ranks of all rows of a table in their order, 0 where the target was not found."""

OTHER_SEED = 0.6
"""Share of equal hit ranks from which two seeds count as one; honest pairs reach .44."""
SAME_SEED = 0.9
"""Share of equal hit ranks, where either differs from the original, from which two methods count as one; .71."""
FEWEST = 20
"""Hit ranks from which a share says something: methods that change nothing, or find nothing, may agree in that."""
ORIGINAL = "original"
SAME_FOR_EVERY_SEED = ("popularity",)
"""Rows that no seed can change."""


def hit_ranks(table: pd.DataFrame) -> Ranks:
    return table["rank"].to_numpy(dtype=np.int16)


def shared(one: Ranks, other: Ranks, original: Ranks | None = None) -> float:
    """Share of equal ranks among the rows in which either table has a hit (and differs from the original, if given);
    0 where the tables are of different users, or the rows too few to say anything."""
    if one.shape != other.shape:
        return 0.0
    counted = (one > 0) | (other > 0)
    if original is not None and original.shape == one.shape:
        counted &= (one != original) | (other != original)
    found = int(counted.sum())
    return float((one == other)[counted].sum()) / found if found >= FEWEST else 0.0


def check_twins(bundle: Bundle, tables: Mapping[str, Ranks]) -> Iterator[Finding]:
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in bundle.results:
        if result.place in tables and result.record.cell.method not in SAME_FOR_EVERY_SEED:
            groups[_setting(result.record)].append(result)
    for results in groups.values():
        for one, other in combinations(results, 2):
            if one.record.cell.seed != other.record.cell.seed:
                share = shared(tables[one.place], tables[other.place])
                if share > OTHER_SEED:
                    seeds = f"the seeds {one.record.cell.seed} and {other.record.cell.seed}"
                    where = f"{one.table_path} and {other.table_path}"
                    yield where, f"{seeds} have the same lists: {share:.0%} of their hit ranks are equal"


def check_copies(bundle: Bundle, tables: Mapping[str, Ranks]) -> Iterator[Finding]:
    if bundle.spec is None:
        return
    roots = [bundle.leaderboard / "results", *sorted((bundle.leaderboard / "grids").glob("*"))]
    roots += [folder / "results" for folder in bundle.other_submissions()]
    folders = {(result.record.cell.task, result.record.cell.backbone) for result in bundle.results}
    published = [(root, *one) for root in roots for folder in sorted(folders) for one in _published(root, *folder)]
    for result in bundle.results:
        if result.place not in tables:
            continue
        own = tables[result.place]
        known = [one for one in published if _setting(one[1]) == _setting(result.record)]
        originals = {(root, other.cell.seed): ranks for root, other, _, ranks in known if other.cell.method == ORIGINAL}
        for root, other, place, ranks in known:
            # Whoever submits a published method again has its very file; and nothing is gained by having no effect.
            if other.method_digest == result.record.method_digest or other.cell.method == ORIGINAL:
                continue
            same_seed = other.cell.seed == result.record.cell.seed
            original = originals.get((root, other.cell.seed), originals.get((roots[0], other.cell.seed)))
            share = shared(own, ranks, original if same_seed else None)
            if share > (SAME_SEED if same_seed else OTHER_SEED):
                where = place.relative_to(bundle.leaderboard).as_posix()
                yield result.table_path, f"the table is that of {where}: {share:.0%} of the hit ranks are equal"
                break


def _setting(record: RunRecord) -> tuple[str, ...]:
    cell = record.cell
    return cell.task, cell.backbone, record.backbone_label, cell.scale, str(cell.requests)


def _published(root: Path, task: str, backbone: str) -> Iterator[tuple[RunRecord, Path, Ranks]]:
    for path in sorted((root / task / backbone).rglob(RECORD)):
        try:
            record = RunRecord.model_validate_json(path.read_bytes())
            ranks = hit_ranks(read_table(path.with_name(PER_USER).read_bytes(), PER_USER)[0])
        except (OSError, ValidationError, Refused):
            continue
        yield record, path.parent, ranks
