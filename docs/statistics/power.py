"""What the published results can tell apart: spread of paired differences in retain NDCG@10, seeds and users needed.

``python -m docs.statistics.power`` from the repository's root: prints a line for each published block of five seeds or
more and writes power.csv beside this file; docs/statistics.md reads it.

Per pair of rows, the sd over seeds of the difference of their means. Part of it is noise of the test users in one pair
of checkpoints: u, from how a user's difference varies over seeds. More test users of the same kind make u² smaller and
leave the rest. Detectable (power .8): the smallest true difference that the paired t finds, in percent of the
original's mean: in one pair named beforehand (α .05), in the first step of Holm over four rows, and over all methods.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from genrec_unlearn_bench.evaluation.ranking import gain
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, read_record
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference

RESULTS = Path("leaderboard/results")
REFERENCES = ("original", "retrain", "popularity", "sasrec", "filter", "filter-history")
ALPHA, PLANNED = 0.05, 4
SEEDS, USERS = (5, 10), (1, 4)

Gains = Mapping[str, Mapping[int, pd.Series]]
"""Row -> seed -> NDCG@10 of every retain row of the test part, beam 10."""


def gains_of(folder: Path) -> Gains:
    """The rows that have all seeds of the original, of one task and backbone."""
    found: dict[str, dict[int, pd.Series]] = {}
    for place in (path.parent for path in sorted(folder.rglob(RECORD))):
        cell = read_record(place).cell
        table = pd.read_parquet(place / PER_USER).query("group == 'retain' and beam == 10").set_index("example")
        found.setdefault(cell.method, {})[cell.seed] = pd.Series(gain(table["rank"].to_numpy(), 10), table.index)
    return {row: seeds for row, seeds in found.items() if seeds.keys() == found["original"].keys()}


def spread(first: Mapping[int, pd.Series], second: Mapping[int, pd.Series]) -> tuple[float, float]:
    """Sd over seeds of the mean difference, and the part u of it that is noise of the test users."""
    differences = np.stack([(first[seed] - second[seed]).to_numpy() for seed in first])
    seeds, users = differences.shape
    own = differences - differences.mean(0) - differences.mean(1, keepdims=True) + differences.mean()
    return float(differences.mean(1).std(ddof=1)), sqrt(float((own**2).sum()) / ((seeds - 1) * (users - 1)) / users)


def lines(gains: Gains) -> Iterator[tuple[str, str, float, float]]:
    """(first, second, sd, u) of every method against the original, retrain, and every other method."""
    methods = [row for row in gains if row not in REFERENCES]
    for first in methods:
        for second in ("original", "retrain"):
            yield first, second, *spread(gains[first], gains[second])
    for first, second in combinations(methods, 2):
        yield first, second, *spread(gains[first], gains[second])


def main() -> None:
    rows = []
    for folder in sorted(RESULTS.glob("*/*")):
        gains = gains_of(folder) if (folder / "original").is_dir() else {}
        if len(gains.get("original", {})) < SEEDS[0]:
            continue
        mean = float(np.mean([one.mean() for one in gains["original"].values()]))
        pairs = list(lines(gains))
        block = f"{folder.parent.name} {folder.name}"
        family = sum(row not in REFERENCES for row in gains)
        for name, chosen in (
            ("to original", [one for one in pairs if one[1] == "original"]),
            ("to retrain", [one for one in pairs if one[1] == "retrain"]),
            ("between methods", [one for one in pairs if one[1] not in REFERENCES]),
        ):
            sd, noise = (float(np.median([one[place] for one in chosen])) for place in (2, 3))
            for seeds in SEEDS:
                for users in USERS:
                    less = sqrt(max(sd**2 - noise**2, 0.0) + noise**2 / users)
                    levels = [ALPHA / tests for tests in (1, PLANNED, family)]
                    found = [f"{100 * detectable_difference(less, seeds, level) / mean:.1f}" for level in levels]
                    rows.append((block, name, len(chosen), f"{sd:.5f}", f"{noise:.5f}", seeds, users, *found))
                    print(*rows[-1])
    heads = ("block", "pairs", "number", "sd", "u", "seeds", "users", "one pair %", f"{PLANNED} rows %", "all rows %")
    with Path(__file__).with_name("power.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
