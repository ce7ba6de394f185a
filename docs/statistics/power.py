"""What the published results can tell apart: spread of paired differences in retain NDCG@10, seeds and users needed.

``python -m docs.statistics.power`` from the repository's root: prints a line for each published block of five seeds or
more, writes power.csv beside this file, and fills the table of docs/statistics.md.

Per pair of rows, the sd over seeds of the difference of their means. Part of it is noise of the test users in one pair
of checkpoints: u, from how a user's difference varies over seeds. More test users of the same kind make u² smaller and
leave the rest. Detectable (power .8): the smallest true difference that the paired t finds, in percent of the
original's mean: in one pair named beforehand (α .05), in the first step of Holm over four tests, and in the first step
over the table's family: rows × primary measures against a baseline, pairs of rows × primary measures between methods.

Planted: a loss of 3 % of the original's mean is laid on each pair's own differences over seeds, centred and with signs
drawn anew a thousand times, so that without it the true difference is 0; the share in which the table shows it, i.e.
in which Holm over the family finds it beside the p-values of the family's other tests, as they are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from docs.planted.report import filled
from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.evaluation.ranking import gain
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, read_record
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.statistics.paired import FloatArray, detectable_difference, paired_tests

RESULTS = Path("leaderboard/results")
CSV, PAGE = Path(__file__).with_name("power.csv"), Path(__file__).parents[1] / "statistics.md"
REFERENCES = statistics_protocol(PROTOCOL_VERSION).references
ALPHA, PLANNED = 0.05, 4
SEEDS, USERS = (5, 10), (1, 4)
PLANTED, DRAWS = 0.03, 1000
HEADS = [
    *("block", "pairs", "number", "sd", "u", "seeds", "users"),
    *("one pair %", f"{PLANNED} tests %", "table %", "planted 3 % found"),
]


class Row(NamedTuple):
    """A row by seed: NDCG@10 of every retain row of the test part, beam 10, and forget HR@10 in the worst case."""

    gains: Mapping[int, pd.Series]
    left: Mapping[int, float]


def rows_of(folder: Path) -> Mapping[str, Row]:
    """The rows of the suite core that have all seeds of the original, of one task and backbone."""
    found: dict[str, Row] = {}
    for place in (path.parent for path in sorted(folder.rglob(RECORD))):
        record = read_record(place)
        if record.cell.suite != "core":  # other trainings, without the held-out pairs
            continue
        table = pd.read_parquet(place / PER_USER).query("group == 'retain' and beam == 10").set_index("example")
        row = found.setdefault(record.cell.method, Row({}, {}))
        row.gains[record.cell.seed] = pd.Series(gain(table["rank"].to_numpy(), 10), table.index)
        values = {(one.metric, one.group, one.beam): one.value for one in record.metrics}
        row.left[record.cell.seed] = values["worst-case.hr@10", "forget", 10]
    return {name: row for name, row in found.items() if row.gains.keys() == found["original"].gains.keys()}


def spread(first: Mapping[int, pd.Series], second: Mapping[int, pd.Series]) -> tuple[float, float]:
    """Sd over seeds of the mean difference, and the part u of it that is noise of the test users."""
    differences = np.stack([(first[seed] - second[seed]).to_numpy() for seed in first])
    seeds, users = differences.shape
    own = differences - differences.mean(0) - differences.mean(1, keepdims=True) + differences.mean()
    return float(differences.mean(1).std(ddof=1)), sqrt(float((own**2).sum()) / ((seeds - 1) * (users - 1)) / users)


def planted(differences: FloatArray, loss: float, level: float) -> float:
    """Share of draws in which a paired t test at this level finds a loss planted on differences [seeds]."""
    seeds = len(differences)
    centred = (differences - differences.mean()) * sqrt(seeds / (seeds - 1))
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(DRAWS, seeds))
    return float((ttest_1samp(signs * centred - loss, 0.0, axis=1).pvalue < level).mean())


def level_beside(others: FloatArray) -> float:
    """The level at which Holm's step-down rejects one more test of a family, beside its other p-values."""
    tests = len(others) + 1
    steps = np.sort(others) <= ALPHA / (tests - np.arange(tests - 1))
    return float(ALPHA / (tests - np.cumprod(steps).sum()))


def shares_found(rows: Mapping[str, Row], pairs: Sequence[tuple[str, str]], seeds: int, loss: float) -> list[float]:
    """By pair, the share of draws in which the table of these pairs and both primary measures shows a planted loss."""
    kept = np.array([[(rows[a].gains[s] - rows[b].gains[s]).mean() for s in range(seeds)] for a, b in pairs])
    left = np.array([[rows[a].left[s] - rows[b].left[s] for s in range(seeds)] for a, b in pairs])
    p = paired_tests(np.concatenate([kept, left])).p
    return [planted(own, loss, level_beside(np.delete(p, place))) for place, own in enumerate(kept)]


def pairs_of(rows: Mapping[str, Row]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The families of pairs: every method with the original, with retrain, and with every other method."""
    methods = [name for name in rows if name not in {*REFERENCES, "original"}]
    for reference in ("original", "retrain"):
        yield f"to {reference}", [(method, reference) for method in methods]
    yield "between methods", list(combinations(methods, 2))


def main() -> None:
    lines = []
    for folder in sorted(RESULTS.glob("*/*")):
        rows = rows_of(folder) if (folder / "original").is_dir() else {}
        if "original" not in rows or len(rows["original"].gains) < SEEDS[0]:
            continue
        original = rows["original"].gains
        mean = float(np.mean([one.mean() for one in original.values()]))
        block = f"{folder.parent.name} {folder.name}"
        for name, pairs in pairs_of(rows):
            levels = [ALPHA / tests for tests in (1, PLANNED, 2 * len(pairs))]
            spreads = [spread(rows[a].gains, rows[b].gains) for a, b in pairs]
            sd, noise = (float(np.median([one[place] for one in spreads])) for place in (0, 1))
            for seeds, users in product(SEEDS, USERS):
                less = sqrt(max(sd**2 - noise**2, 0.0) + noise**2 / users)
                found = [f"{100 * detectable_difference(less, seeds, level) / mean:.1f}" for level in levels]
                told = ""
                if seeds <= len(original) and users == 1:
                    told = f"{np.mean(shares_found(rows, pairs, seeds, PLANTED * mean)):.2f}"
                lines.append((block, name, len(pairs), f"{sd:.5f}", f"{noise:.5f}", seeds, users, *found, told))
                print(*lines[-1])
    with CSV.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADS, *lines])
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {"power": table()}), encoding="utf-8")


def table() -> list[str]:
    """Lines of the Markdown table of power.csv: at each number of seeds, with the test users that there are."""
    with CSV.open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["users"] == "1" and not row["block"].startswith("demo")]
    few, many = ([row for row in found if row["seeds"] == str(seeds)] for seeds in SEEDS)
    heads = ["task and backbone", "pairs", "sd", "sd from users"]
    for seeds in ("five", "ten"):
        heads += [f"{seeds} seeds: pair", f"{PLANNED} tests", "table", "3 % found"]
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one, other in zip(few, many, strict=True):
        task, backbone = one["block"].split()
        to = one["pairs"].removeprefix("to ")
        title = f"`{task}`, {backbone}, {one['number']} methods" if to == "original" else ""
        cells = [
            title,
            one["pairs"].replace(f"to {to}", f"to `{to}`"),
            *(f"{float(one[head]):.4f}"[1:] for head in ("sd", "u")),
        ]
        cells += [(row[head] or "–").removeprefix("0") for row in (one, other) for head in HEADS[-4:]]
        out.append("| " + " | ".join(cells) + " |")
    return out


if __name__ == "__main__":
    main()
