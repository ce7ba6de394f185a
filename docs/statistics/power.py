"""What the published results can tell apart: spread of paired differences in retain NDCG@10, seeds and users needed.

``python -m docs.statistics.power`` from the repository's root: prints a line for each published block of five seeds or
more and writes power.csv beside this file; docs/statistics.md reads it.

Per pair of rows, the sd over seeds of the difference of their means. Part of it is noise of the test users in one pair
of checkpoints: u, from how a user's difference varies over seeds. More test users of the same kind make u² smaller and
leave the rest. Detectable (power .8): the smallest true difference that the paired t finds, in percent of the
original's mean: in one pair named beforehand (α .05), in the first step of Holm over four rows, and over all methods.

Planted: a loss of 3 % of the original's mean is laid on each pair's own differences over seeds, centred and with signs
drawn anew a thousand times, so that without it the true difference is 0; the share in which the paired t
finds it, in the first step of Holm over all methods, says whether the seeds at hand keep what the formula promises.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from genrec_unlearn_bench.evaluation.ranking import gain
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, read_record
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference

RESULTS = Path("leaderboard/results")
REFERENCES = ("original", "retrain", "popularity", "sasrec", "filter", "filter-history")
ALPHA, PLANNED = 0.05, 4
SEEDS, USERS = (5, 10), (1, 4)
PLANTED, DRAWS = 0.03, 1000

Gains = Mapping[str, Mapping[int, pd.Series]]
"""Row -> seed -> NDCG@10 of every retain row of the test part, beam 10."""


def gains_of(folder: Path) -> Gains:
    """The rows of the suite core that have all seeds of the original, of one task and backbone."""
    found: dict[str, dict[int, pd.Series]] = {}
    for place in (path.parent for path in sorted(folder.rglob(RECORD))):
        cell = read_record(place).cell
        if cell.suite != "core":  # other trainings, without the held-out pairs
            continue
        table = pd.read_parquet(place / PER_USER).query("group == 'retain' and beam == 10").set_index("example")
        found.setdefault(cell.method, {})[cell.seed] = pd.Series(gain(table["rank"].to_numpy(), 10), table.index)
    return {row: seeds for row, seeds in found.items() if seeds.keys() == found["original"].keys()}


def spread(first: Mapping[int, pd.Series], second: Mapping[int, pd.Series]) -> tuple[float, float]:
    """Sd over seeds of the mean difference, and the part u of it that is noise of the test users."""
    differences = np.stack([(first[seed] - second[seed]).to_numpy() for seed in first])
    seeds, users = differences.shape
    own = differences - differences.mean(0) - differences.mean(1, keepdims=True) + differences.mean()
    return float(differences.mean(1).std(ddof=1)), sqrt(float((own**2).sum()) / ((seeds - 1) * (users - 1)) / users)


def planted(
    first: Mapping[int, pd.Series], second: Mapping[int, pd.Series], seeds: int, loss: float, level: float
) -> float:
    """Share of draws in which a paired t test at this level finds a loss planted on the first seeds' differences."""
    differences = np.array([(first[seed] - second[seed]).mean() for seed in sorted(first)[:seeds]])
    differences = (differences - differences.mean()) * sqrt(seeds / (seeds - 1))
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(DRAWS, seeds))
    return float((ttest_1samp(signs * differences - loss, 0.0, axis=1).pvalue < level).mean())


def pairs_of(gains: Gains) -> Iterator[tuple[str, str]]:
    """Every method with the original, with retrain, and with every other method."""
    methods = [row for row in gains if row not in REFERENCES]
    yield from ((first, second) for first in methods for second in ("original", "retrain"))
    yield from combinations(methods, 2)


def main() -> None:
    rows = []
    for folder in sorted(RESULTS.glob("*/*")):
        gains = gains_of(folder) if (folder / "original").is_dir() else {}
        if len(gains.get("original", {})) < SEEDS[0]:
            continue
        mean = float(np.mean([one.mean() for one in gains["original"].values()]))
        spreads = {pair: spread(gains[pair[0]], gains[pair[1]]) for pair in pairs_of(gains)}
        block = f"{folder.parent.name} {folder.name}"
        methods = [row for row in gains if row not in REFERENCES]
        levels = [ALPHA / tests for tests in (1, PLANNED, len(methods) - 1)]
        for name, seconds in (("to original", ["original"]), ("to retrain", ["retrain"]), ("between methods", methods)):
            chosen = [pair for pair in spreads if pair[1] in seconds]
            sd, noise = (float(np.median([spreads[pair][place] for pair in chosen])) for place in (0, 1))
            for seeds, users in product(SEEDS, USERS):
                less = sqrt(max(sd**2 - noise**2, 0.0) + noise**2 / users)
                found = [f"{100 * detectable_difference(less, seeds, level) / mean:.1f}" for level in levels]
                told = ""
                if seeds <= len(gains["original"]) and users == 1:
                    tests = (planted(gains[a], gains[b], seeds, PLANTED * mean, levels[-1]) for a, b in chosen)
                    told = f"{np.mean(list(tests)):.2f}"
                rows.append((block, name, len(chosen), f"{sd:.5f}", f"{noise:.5f}", seeds, users, *found, told))
                print(*rows[-1])
    heads = (
        "block",
        "pairs",
        "number",
        "sd",
        "u",
        "seeds",
        "users",
        "one pair %",
        f"{PLANNED} rows %",
        "all rows %",
        "planted 3 % found",
    )
    with Path(__file__).with_name("power.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
