"""What docs/findings.md says of tests, held against the published results: which rows, and with which p."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from genrec_unlearn_bench.api import compare, load_results
from genrec_unlearn_bench.reporting.formats.csv_tables import LONG_COLUMNS, long_rows
from genrec_unlearn_bench.reporting.selection import Selection
from genrec_unlearn_bench.submissions.result_set import load_result_set

ROOT = Path(__file__).parents[3]
PAGE = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
MAIN = pd.read_csv(ROOT / "leaderboard/site/tables/main-long.csv", keep_default_na=False, na_values=[""])
SENSITIVITY = pd.read_csv(ROOT / "docs/statistics/sensitivity.csv")
LEFT, KEPT, EXPOSED = "forget:worst-case.hr@10/10", "retain:ndcg@10/10", "exposed CR@10"
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


def rows(table: pd.DataFrame, task: str, backbone: str, measure: str | None = None) -> pd.DataFrame:
    found = table[(table["task"] == task) & table["backbone"].str.startswith(backbone) & table["setup"].isna()]
    return found if measure is None else found[found["measure"] == measure].set_index("row")


def exposed(task: str, backbone: str, against: str, measure: str = EXPOSED) -> pd.DataFrame:
    blocks = SENSITIVITY[SENSITIVITY["block"] == f"{task} {backbone}"]
    return blocks[(blocks["measure"] == measure) & (blocks["against"] == against)].set_index("row")


def significant(table: pd.DataFrame, column: str, sign: int) -> pd.Series:
    """Holm's p of the rows whose difference has this sign and whose p is below .05, by row."""
    found = table[(table[column] < 0.05) & (sign * table["difference"] > 0)]
    return found[column]


def by_seed(values: str) -> dict[str, float]:
    """The column ``values``: 0=0.315 1=0.369."""
    return {seed: float(value) for seed, value in (pair.split("=") for pair in values.split())}


def against(baseline: str) -> pd.DataFrame:
    """The rows of ``bench leaderboard --baseline`` of Industrial's random brands."""
    results = load_result_set([ROOT / "leaderboard/results/industrial-brand"], published=False, skip_broken=False)
    report = results.report(Selection(backbones=("tiger", "mor*"), suites=("core",)), "main", baseline=baseline)
    found = pd.DataFrame(long_rows(report.tables), columns=list(LONG_COLUMNS))
    return found.assign(setup=found["setup"].where(found["setup"] != ""))


VARIANTS = {"tracer", "tracer-no-reassignment", "tracer-zero-phi"}


@pytest.mark.parametrize("backbone", ["tiger", "mor"])
def test_npo_is_equivalent_to_retrain(backbone: str) -> None:
    says("is equivalent to `retrain` on both primary measures", "on both measures equivalent to `retrain`")
    for measure in PRIMARY:
        assert rows(MAIN, "industrial-brand", backbone, measure).loc["npo", "equivalence"] == "equivalent"


def test_reassignment_with_mor() -> None:
    results = load_results(ROOT / "leaderboard/results", task="industrial-brand", backbone="mor*", suite="core")
    found = compare("tracer", "tracer-no-reassignment", results).set_index("measure")
    left, kept = (
        "{} [{}, {}]".format(*(short(float(found[column][measure])) for column in ("estimate", "low", "high")))
        for measure in PRIMARY
    )
    says(f"with `mor` they differ by {left} in what is left and {kept} in what is kept")
    table = against("random-reassign")
    left_rows, kept_rows = (rows(table, "industrial-brand", "mor", measure) for measure in PRIMARY)
    p = {row: (left_rows["p_holm"][row], kept_rows["p_holm"][row]) for row in ("tracer", "tracer-no-reassignment")}
    means = [short(table["mean"][row]) for table in (left_rows, kept_rows) for row in ("tracer", "random-reassign")]
    says(
        "IDs beat random ones with `mor` (left {} against {}, kept {} against {}; Holm {} and {})".format(
            *means, *(short(one, 3) for one in p["tracer"])
        ),
        f"so does moving none ({short(p['tracer-no-reassignment'][0], 3)}, < .001)",
    )
    assert p["tracer-no-reassignment"][1] < 0.001


def test_what_forgets_more_than_retain_examples_alone() -> None:
    known = against("retain-only")
    mor = significant(rows(known, "industrial-brand", "mor", LEFT), "p_holm", -1)
    says(
        "With `mor` `npo`, `blur`, `rmu`, `tracer` and its variants, `wga`, `task-vector`, `scrub`, `grad-ascent` "
        f"(Holm ≤ {bound(mor.drop('undial').max())}) and `undial` ({short(mor['undial'], 3)}) leave less"
    )
    assert set(mor.index) == {"npo", "blur", "rmu", "wga", "task-vector", "scrub", "grad-ascent", "undial", *VARIANTS}
    table = rows(known, "industrial-brand", "tiger", LEFT)
    tiger = significant(table, "p_holm", -1)
    assert set(tiger.index) == {"influence", "task-vector"}
    says(
        f"only `influence` ({short(tiger['influence'], 3)}) and `task-vector` ({short(tiger['task-vector'], 3)}) are "
        f"shown to; `npo` ({short(table['p_holm']['npo'], 3)}), `wga`, `blur`, `simnpo`, `tracer` and its variants do "
        "in every seed"
    )
    values = {row: by_seed(text) for row, text in rows(MAIN, "industrial-brand", "tiger", LEFT)["values"].items()}
    for row in ("npo", "wga", "blur", "simnpo", *VARIANTS):
        assert all(value < values["retain-only"][seed] for seed, value in values[row].items()), row


def test_the_one_row_that_keeps_less() -> None:
    less = {
        (backbone, row): p
        for backbone in ("tiger", "mor")
        for row, p in significant(rows(MAIN, "industrial-brand", backbone, KEPT), "p_holm", -1).items()
    }
    assert list(less) == [("mor", "rmu")]
    tested = [rows(MAIN, "industrial-brand", backbone, KEPT)["p_holm"].notna().sum() for backbone in ("tiger", "mor")]
    mor = rows(MAIN, "industrial-brand", "mor", KEPT)["mean"]
    says(
        f"Tuned, one of {sum(tested)} rows is significantly below the original: `rmu` with `mor`, by "
        f"{100 * (1 - mor['rmu'] / mor['original']):.1f} % (Holm {short(less['mor', 'rmu'], 3)})"
    )


def test_costs() -> None:
    unlearn, total = (
        {
            (backbone, row): round(mean)
            for backbone in ("tiger", "mor")
            for row, mean in rows(MAIN, "industrial-brand", backbone, measure)["mean"].items()
        }
        for measure in ("cost.unlearn-seconds", "cost.total-share")
    )
    retrain = {backbone: unlearn[backbone, "retrain"] for backbone in ("tiger", "mor")}
    assert unlearn["tiger", "tracer"] == unlearn["mor", "tracer"]
    efficiency = pd.read_csv(
        ROOT / "leaderboard/site/tables/efficiency-long.csv", keep_default_na=False, na_values=[""]
    )
    share = {
        backbone: round(
            100 * rows(efficiency, "industrial-brand", backbone, "cost.share-of-retraining")["mean"]["tracer"]
        )
        for backbone in retrain
    }
    says(
        f"`tracer` takes {unlearn['tiger', 'tracer']} s with either model, {share['tiger']} and {share['mor']} % of a "
        f"retraining ({retrain['tiger']}, {retrain['mor']} s); with its twelve trials {total['tiger', 'tracer']} and "
        f"{total['mor', 'tracer']} %, `npo` {total['tiger', 'npo']} and {total['mor', 'npo']} %",
        f"in {unlearn['tiger', 'npo']} and {unlearn['mor', 'npo']} s",
    )


def test_concept_rates_against_retain_examples_alone() -> None:
    tiger = significant(exposed("industrial-brand", "tiger", "retain-only"), "p holm", -1)
    listed = ["npo", "blur", "grad-diff", "wga", "influence", "task-vector", *VARIANTS]
    assert set(tiger.index) == {*listed, "simnpo", "relabel"}
    says(
        "By it TIGER's `npo`, `blur`, `grad-diff`, `wga`, `influence`, `task-vector`, `tracer` and its variants beat "
        f"`retain-only` (Holm ≤ {bound(tiger[listed].max())}), and `simnpo` and `relabel` "
        f"(≤ {bound(tiger.max())})"
    )
    mor = significant(exposed("industrial-entangled", "mor", "retain-only"), "p holm", -1)
    assert set(mor.index) == {"npo", "tracer-no-reassignment", "grad-diff", "undial", "wga"}
    says(
        "There `npo`, `tracer-no-reassignment`, `grad-diff`, `undial` and `wga` beat `retain-only` "
        f"(≤ {bound(mor.max())})"
    )


def test_entangled_brands() -> None:
    tiger = significant(rows(MAIN, "industrial-entangled", "tiger", LEFT), "p_holm", -1)
    assert set(tiger.index) == {"npo", "relabel", "influence"}
    says(f"leave significantly less (Holm ≤ {bound(tiger.max())}), with `mor` none")
    assert significant(rows(MAIN, "industrial-entangled", "mor", LEFT), "p_holm", -1).empty
    random = {name: exposed("industrial-entangled", name, "random-reassign") for name in ("tiger", "mor")}
    better = significant(random["tiger"], "p holm", -1)
    worse = {name: len(significant(table, "p holm", 1)) for name, table in random.items()}
    assert list(better.index) == ["npo"]
    assert worse["mor"] == len(random["mor"])
    says(
        f"only `npo` is shown to beat random IDs (Holm {short(better['npo'], 3)}), which beat {worse['tiger']} of "
        f"{len(random['tiger'])}; with `mor` they beat all"
    )
    kept = rows(MAIN, "industrial-entangled", "mor", KEPT)["mean"][random["mor"].index]
    own = rows(MAIN, "industrial-entangled", "mor", KEPT)["mean"]["random-reassign"]
    says(f"but keep less than {(kept > own).sum()}.")


def test_without_the_most_frequent_target() -> None:
    without = "retain NDCG@10 without the most frequent target"
    to_original = exposed("industrial-brand", "tiger", "original", without)
    to_retrain = exposed("industrial-brand", "tiger", "retrain", without)
    less = [f"{-to_original['percent'][row]:.1f} %" for row in ("npo", "tracer", "retain-only")]
    says("`npo` keeps {} less than the original, `tracer` {}, `retain-only` {} (none after Holm".format(*less))
    assert significant(to_original, "p holm", -1).empty
    assert "equivalent" not in set(to_retrain["equivalence"])
    mor = exposed("industrial-brand", "mor", "retrain", without)
    assert set(mor["equivalence"]) == {"equivalent"}
    says("no method is equivalent to it; with `mor` every method is")
