"""The page docs/findings.md, the published results that it quotes, and how it writes their numbers."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pandas as pd

from genrec_unlearn_bench.reporting.formats.csv_tables import LONG_COLUMNS, long_rows
from genrec_unlearn_bench.submissions.result_set import load_result_set

ROOT = Path(__file__).parents[3]
PAGE = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
MAIN, ATTACK, EFFICIENCY = (
    pd.read_csv(ROOT / f"leaderboard/site/tables/{name}-long.csv", keep_default_na=False, na_values=[""])
    for name in ("main", "attack", "efficiency")
)
ALL = pd.concat([MAIN, ATTACK]).drop_duplicates(["task", "backbone", "setup", "row", "measure"])
FULL = ROOT / "leaderboard/results/industrial-brand/tiger"
SENSITIVITY = pd.read_csv(ROOT / "docs/statistics/sensitivity.csv")
FLOORS = pd.read_csv(ROOT / "docs/statistics/floors.csv")
LEFT, KEPT = "forget:worst-case.hr@10/10", "retain:ndcg@10/10"
RATE = "forget:exposed.concept-rate@10/10"
PRIMARY = [LEFT, KEPT]


def says(*fragments: str) -> None:
    for fragment in fragments:
        assert fragment in PAGE, fragment


def bound(p: float) -> str:
    """The least p of three digits that is not below it."""
    return short(math.ceil(1000 * p) / 1000, 3)


def short(number: float, digits: int = 4) -> str:
    """As the page writes it: .0123, −.0012."""
    return f"{number:.{digits}f}".replace("0.", ".").replace("-", "−")


def rows(table: pd.DataFrame, task: str, backbone: str, measure: str, suite: str = "core") -> pd.DataFrame:
    of_suite = table["setup"].isna() if suite == "core" else table["setup"] == f"suite {suite}"
    found = table[(table["task"] == task) & table["backbone"].str.startswith(backbone) & of_suite]
    return found[found["measure"] == measure].set_index("row")


def sensitivity(task: str, backbone: str, against: str, measure: str) -> pd.DataFrame:
    blocks = SENSITIVITY[SENSITIVITY["block"] == f"{task} {backbone}"]
    return blocks[(blocks["measure"] == measure) & (blocks["against"] == against)].set_index("row")


def significant(table: pd.DataFrame, column: str, sign: int) -> pd.Series:
    """Holm's p of the rows whose difference has this sign and whose p is below .05, by row."""
    found = table[(table[column] < 0.05) & (sign * table["difference"] > 0)]
    return found[column]


def by_seed(values: str) -> dict[str, float]:
    """The column ``values``: 0=0.315 1=0.369."""
    return {seed: float(value) for seed, value in (pair.split("=") for pair in values.split())}


@cache
def against(baseline: str, task: str = "industrial-brand", layout: str = "main") -> pd.DataFrame:
    """The rows of ``bench leaderboard --baseline`` of a task, by default Industrial's random brands."""
    results = load_result_set([ROOT / "leaderboard/results" / task], published=False, skip_broken=False)
    report = results.report({"suite": ("core",)}, layout, baseline=baseline)
    found = pd.DataFrame(long_rows(report.tables), columns=list(LONG_COLUMNS))
    return found.assign(setup=found["setup"].where(found["setup"] != ""))


def rates(baseline: str, task: str, backbone: str) -> pd.DataFrame:
    """Exposed CR@10 against a row."""
    return rows(against(baseline, task, "attack"), task, backbone, RATE)


def mean(task: str, backbone: str, measure: str, *names: str, suite: str = "core") -> list[str]:
    """Means of rows in a task's tables as the page writes them."""
    found = rows(ALL, task, backbone, measure, suite)["mean"]
    return [short(found[name]) for name in names]
