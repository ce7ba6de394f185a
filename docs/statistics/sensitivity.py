"""What the published findings owe to one measure and one rule: other measures of the same records, other floors.

``python -m docs.statistics.sensitivity DATA``, from the repository's root, writes sensitivity.csv and floors.csv
beside this file, from the published results. Their tables are without target items, which come from the datasets'
files in DATA (``bench run --data-dir``). Chosen after the primary measures had been seen (a reviewer asked), so
exploratory.

Retain NDCG@10 of every row against the original, retrain and filter: as it is tested, without the test's most frequent
target, and as the mean over target items instead of rows. Paired t over seeds, Holm over the methods of a block (task
and backbone) within one measure and one comparison, references left out as in the tables; a block of one seed has means
and differences alone.

Floors: what the tuning rule takes from the published trials if a method must keep another share of retain and
retain-near NDCG@10 on validation, and its default configuration, the first trial. Validation numbers of one seed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genrec_unlearn_bench.api import load_task
from genrec_unlearn_bench.evaluation.ranking import gain
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, read_record
from genrec_unlearn_bench.reporting.statistics.equivalence import margin, tosts
from genrec_unlearn_bench.reporting.statistics.paired import holm, paired_tests
from genrec_unlearn_bench.tuning import rule
from genrec_unlearn_bench.tuning.choice import read_choice

RESULTS = Path("leaderboard/results")
TUNED = Path("leaderboard/tuned")
REFERENCES = ("original", "retrain", "popularity", "sasrec", "filter", "filter-history")
RETAIN = ("retain NDCG@10", "retain NDCG@10 without the most frequent target", "retain NDCG@10 over target items")
FLOORS = ((0.90, 0.80), (0.95, 0.90), (0.97, 0.90), (0.99, 0.90))
"""Shares of retain and retain-near NDCG@10 to be kept; the protocol's are .97 and .90."""


def measures(table: pd.DataFrame, targets: NDArray[np.intp]) -> dict[str, float]:
    """Measures of one per-user table; ``targets``: items of the retain examples, as the task's split has them."""
    retain = table.query("group == 'retain' and beam == 10")
    gains = pd.Series(gain(retain["rank"].to_numpy(), 10), targets[retain["example"]])
    frequent = gains.index.to_series().mode().iloc[0]
    means = (gains.mean(), gains[gains.index != frequent].mean(), gains.groupby(level=0).mean().mean())
    return dict(zip(RETAIN, means, strict=True))


def block(folder: Path, targets: NDArray[np.intp]) -> dict[str, pd.DataFrame]:
    """Row -> measures by seed, of the rows of the suite core that have all seeds of the original."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for place in (path.parent for path in sorted(folder.rglob(RECORD))):
        cell = read_record(place).cell
        if cell.suite != "core":  # other trainings, without the held-out pairs
            continue
        found.setdefault(cell.method, {})[cell.seed] = measures(pd.read_parquet(place / PER_USER), targets)
    tables = {row: pd.DataFrame.from_dict(seeds, orient="index").sort_index() for row, seeds in found.items()}
    return {row: table for row, table in tables.items() if table.index.equals(tables["original"].index)}


def shown(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.4f}"


def comparisons(name: str, rows: dict[str, pd.DataFrame]) -> Iterator[tuple[Any, ...]]:
    methods = [row for row in rows if row not in REFERENCES]
    for measure in RETAIN:
        for base in ("original", "retrain", "filter"):
            compared = [row for row in methods if row != base]
            differences = np.stack([(rows[row][measure] - rows[base][measure]).to_numpy() for row in compared])
            tests, family = paired_tests(differences), np.array([row != "random-reassign" for row in compared])
            limit = margin(rows["retrain"][measure].to_numpy()) if base == "retrain" else None
            equal = [one.verdict if limit else "" for one in tosts(differences, limit)]
            other, corrected = rows[base][measure].mean(), np.full(len(compared), np.nan)
            corrected[family] = holm(tests.p[family])
            for place, row in enumerate(compared):
                mean, by = rows[row][measure].mean(), differences[place].mean()
                numbers = [shown(number) for number in (by, tests.low[place], tests.high[place])]
                ps = (shown(tests.p[place]), shown(corrected[place]))
                means = (row, f"{mean:.4f}", base, f"{other:.4f}")
                yield (
                    name,
                    differences.shape[1],
                    measure,
                    *means,
                    *numbers,
                    f"{100 * by / other:.1f}" if other else "",
                    *ps,
                    equal[place],
                )


def floors() -> Iterator[tuple[Any, ...]]:
    for path in sorted(TUNED.rglob("*.json")):
        choice = read_choice(path)
        if choice.method not in REFERENCES:
            taken = [(("default", ""), 0)]
            for retain, near in FLOORS:
                rule.FLOOR, rule.NEAR_FLOOR = retain, near
                found = rule.choose(choice.trials, choice.original)
                taken += [((f"{retain:.2f}", f"{near:.2f}"), found[0])] if found else []
            rule.FLOOR, rule.NEAR_FLOOR = 0.97, 0.90
            for (retain_floor, near_floor), place in taken:
                trial = choice.trials[place]
                kept = (trial.retain_ndcg or 0.0) / (choice.original.retain_ndcg or 1.0)
                left = f"{rule.worst_case(trial) or 0.0:.4f}"
                yield choice.task, choice.backbone, choice.method, retain_floor, near_floor, place, left, f"{kept:.3f}"


def write(name: str, heads: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with Path(__file__).with_name(name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


def main(data: Path) -> None:
    found: list[tuple[Any, ...]] = []
    for task in sorted({path.parent.name for path in RESULTS.glob("*/*/")} - {"demo-brand"}):
        targets = load_task(task, data_dir=data).split.test.retain.targets
        for folder in sorted((RESULTS / task).iterdir()):
            found += comparisons(f"{task} {folder.name}", block(folder, targets))
    heads = (
        *("block", "seeds", "measure", "row", "mean", "against", "its mean", "difference", "low", "high", "percent"),
        *("p", "p holm", "equivalence"),
    )
    write("sensitivity.csv", heads, found)
    heads = ("task", "backbone", "method", "retain floor", "retain-near floor", "trial", "forget HR@10", "kept")
    write("floors.csv", heads, floors())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
